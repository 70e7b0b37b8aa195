// One replica of one shard, as a pure state machine: what it is told and the time go in, what is to be done comes out. It
// has entries' identities only; their bytes, the log and the network are the driver's.
//
//              control plane: views            own log: how far it is
//                     |                               |
//    peers -------> Replica -- Output ---> messages, entries to log, view to store, reports to the control plane
//    driver: proposed(), tick() ---^        committed up to, role
//
// Roles within a view
//
//    kInactive --view--> kBackup  <-> kPrimary (opening -> open)        kLearner --a view with it as member--> kBackup
//        restart: inactive until the control plane has told the current view; a restarted primary needs a new epoch
//
// Rules (PacificA, with the epochs of Vertical Paxos)
//   - An entry is committed when every member has it as durable as its writer asked, in the primary's own epoch. What
//     a former primary left is committed together with the BARRIER, the first entry of each new primary.
//   - A new primary's log is authoritative. Whoever has something else behind their last common entry drops it: it was
//     not committed, because that would have needed the new primary's acknowledgement.
//   - A replica says nothing in an epoch before having adopted it is durable, and nothing in an older one afterwards.
//   - Acknowledgements count what is known to agree with the primary's log ("verified"), which an Append's prev shows.
//   - Reads at the primary rest on promises (lease.h), or on a round of Confirm: no member that answers has left the epoch.
//   - Joining learners count as members for commits and leases, from the change of the view that says so until one that
//     does not.
//
// Ownership: none of anything. Thread: one at a time. Peer input is refused where it makes no sense, never asserted.
#ifndef SKUA_KVSTORE_REPLICATION_REPLICA_H_
#define SKUA_KVSTORE_REPLICATION_REPLICA_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "kvstore/replication/epoch_runs.h"
#include "kvstore/replication/lease.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/durability.h"
#include "rpc/base/clock.h"

namespace skua::kv {

enum class ReplicaRole : uint8_t { kInactive, kPrimary, kBackup, kLearner };

/// "inactive", "primary", "backup", "learner".
[[nodiscard]] const char* replica_role_name(ReplicaRole role);

struct ReplicaOptions {
  LeaseOptions lease;
  bool leases = true;  ///< false: every linearizable read asks the members (Confirm)
  DurationNs heartbeat_ns = 50 * kMillisecond;
  DurationNs suspect_after_ns = 300 * kMillisecond;  ///< silence of a peer
  DurationNs first_word_ns = 2 * kSecond;            ///< silence of a peer that has not spoken in this epoch yet
  DurationNs tell_commit_ns = kMillisecond;          ///< members hear of a commit after so long at the latest
  DurationNs tail_again_ns = 5 * kMillisecond;       ///< a gap in what is received is complained of once in this time
  uint64_t append_entries_max = 256;                 ///< of one message
  uint64_t window_entries_max = 4096;                ///< sent to a peer and not acknowledged
  uint64_t caught_up_entries = 1024;                 ///< a learner that lags by no more may join
  // Ejection of a member that is slow, while there are more than min_insync (kv-stores: gray failures).
  DurationNs slow_after_ns = 200 * kMillisecond;
  DurationNs slow_floor_ns = 20 * kMillisecond;
  int64_t slow_ratio = 5;
  DurationNs hung_after_ns = kSecond;  ///< one log alone does not get on with what all others have made safe
};

/// For the control plane. Repeated until the view changes.
struct ReplicaReport {
  enum class Kind : uint8_t {
    kSuspect,     ///< `node` does not answer
    kSlow,        ///< `node` holds up every write
    kNeedsEpoch,  ///< the primary (this one) has forgotten what it was, or what it has sent: it cannot go on in this epoch
    kCaughtUp,   ///< learner `node` is near the end of the log
    kJoinReady,  ///< learner `node` has everything that is committed; attempt `join`
    kDoubtful,   ///< this replica (`node`) may lack what it had acknowledged: it leads nobody; its log ends with `last`
  };
  Kind kind = Kind::kSuspect;
  uint64_t epoch = 0;
  NodeId node = 0;
  uint64_t join = 0;
  EntryId last{};

  friend bool operator==(const ReplicaReport&, const ReplicaReport&) = default;
};

/// What a snapshot would do to a replica's log.
enum class SnapshotFit : uint8_t {
  kNone,         ///< nothing new in it, or this replica leads
  kKeepsLog,     ///< the log goes on behind it
  kReplacesLog,  ///< nothing of the log stays
};

/// What is to be done; the driver clears it. Order within: view, truncate and append, messages.
struct ReplicaOutput {
  struct Envelope {
    NodeId to = 0;
    ReplicaMessage message;
  };
  /// Entries first..last for a peer: make_append() has the message.
  struct Send {
    NodeId to = 0;
    uint64_t first = 0;
    uint64_t last = 0;
  };

  std::optional<View> persist_view;        ///< then view_persisted()
  std::optional<uint64_t> truncate_after;  ///< forget the entries behind this one
  uint64_t accept_first = 0;               ///< of the Append just taken: into the log, from this index on; 0: none
  bool append_barrier = false;             ///< log a barrier as the last entry (which proposed() has been told of)
  bool fetch_view = false;                 ///< a peer says that there is a newer view: ask the control plane
  bool fetch_snapshot = false;             ///< then install_snapshot()
  bool failed = false;                     ///< what is committed is not in the log: only a snapshot helps
  bool restored = false;                   ///< Restart::doubt is over
  std::vector<Envelope> messages;
  std::vector<Send> sends;
  std::vector<ReplicaReport> reports;

  void clear();
};

class Replica {
 public:
  /// What a replica finds when it starts.
  struct Restart {
    View view;                  ///< the last persisted; epoch 0: none
    EpochRuns log;              ///< all of it durable
    uint64_t commit_index = 0;  ///< at least this much is known to be committed; not below the log's base
    /// Not 0: a power cut may have taken what it had acknowledged as written. Names that cut among all of this replica.
    uint64_t doubt = 0;
  };

  Replica(const ReplicaOptions& options, ReplicaId self, Restart restart, TimeNs now);

  // --- Input

  /// A view from the control plane; older ones are ignored.
  void on_view(const View& view, TimeNs now, ReplicaOutput& out);
  /// The view of this epoch, or a later one, is durable.
  void view_persisted(uint64_t epoch, TimeNs now, ReplicaOutput& out);
  /// `from` is the node whose connection it came on.
  void on_message(NodeId from, const ReplicaMessage& message, TimeNs now, ReplicaOutput& out);
  /// The connection to a peer broke, or could not be made.
  void peer_failed(NodeId peer, TimeNs now, ReplicaOutput& out);
  /// The way to a peer was full, or not there: entries from `first` on were not sent. Nothing goes there until peer_ready(), or
  /// until it says what it has.
  void send_refused(NodeId peer, uint64_t first);
  /// The way to a peer has room again, or was made.
  void peer_ready(NodeId peer, TimeNs now, ReplicaOutput& out);
  /// False after send_refused().
  [[nodiscard]] bool may_send(NodeId peer) const;
  /// Primary, can_propose(): the driver logs entry last_index() + 1, with the epoch of the one before it (the barrier's), to be
  /// committed when all members have it so safe; not kDefault.
  void propose(Durability level, TimeNs now, ReplicaOutput& out);
  /// The log had no room for what is behind `index`; it has been given nothing since. A primary cannot go on in its epoch:
  /// peers may have those entries, and their indices are not to be used again.
  void log_refused_after(uint64_t index, ReplicaOutput& out);
  /// How far the own log is, with what it holds now (not what an entry that was replaced had reached).
  void log_progress(const LogLevels& levels, TimeNs now, ReplicaOutput& out);
  /// The log makes no progress although it should: no promises to others until it does.
  void set_log_stalled(bool stalled) { log_stalled_ = stalled; }
  /// Entries before this one cannot be read any more.
  void set_first_available(uint64_t index) { first_available_ = index; }
  /// To be asked before a snapshot takes the place of the state, which may be long after it was fetched: the log may have
  /// entries behind it by now that were acknowledged.
  [[nodiscard]] SnapshotFit snapshot_fit(EntryId base) const;
  /// The state is a snapshot's now, which ends with `base`; the log is what snapshot_fit() said.
  void install_snapshot(EntryId base, TimeNs now, ReplicaOutput& out);
  /// The driver did not run between these times, so nobody was asked or heard: that silence is not the peers'.
  void paused(TimeNs from, TimeNs until);
  /// At wake_at(), or more often.
  void tick(TimeNs now, ReplicaOutput& out);
  /// When time alone changes something next.
  [[nodiscard]] TimeNs wake_at() const;

  // --- What it knows

  [[nodiscard]] ReplicaRole role() const { return role_; }
  [[nodiscard]] const View& view() const { return view_; }
  [[nodiscard]] uint64_t last_index() const { return log_.last_index(); }
  [[nodiscard]] uint64_t commit_index() const { return commit_index_; }
  /// Reads here show entries up to this one. A primary tells of no later commit: a backup that is read, too, would show what a
  /// read of the primary does not show yet.
  void set_shown(uint64_t index) { shown_ = index; }
  [[nodiscard]] const EpochRuns& log() const { return log_; }
  /// It may lack what it had acknowledged, and no primary has said otherwise yet.
  [[nodiscard]] bool is_doubtful() const { return doubt_ != 0; }
  /// Primary whose barrier is committed.
  [[nodiscard]] bool open() const { return role_ == ReplicaRole::kPrimary && open_; }
  /// open(), its epoch durable (or another life could make other entries in it), and as many members as min_insync asks for.
  [[nodiscard]] bool can_propose() const { return open() && speaks() && view_.members.size() >= view_.min_insync; }
  /// The header of a Send, or of a part of one.
  [[nodiscard]] Append make_append(uint64_t first, uint64_t last) const;
  /// The lowest index that a peer may still need, or the next one.
  [[nodiscard]] uint64_t needed_from() const;
  /// Of a peer, for status: how far it has acknowledged.
  [[nodiscard]] std::optional<LogLevels> peer_levels(NodeId peer) const;

  // --- Reads. The value is sampled first, then asked: may it be answered as linearizable?

  /// The lease holds at `now` (primary), or every other member's promise (backup with read_anywhere, for keys that no
  /// entry behind commit_index() touches).
  [[nodiscard]] bool may_serve_read(TimeNs now) const;
  /// Begins or joins a round of Confirm; the read may be answered when confirmed_round() has reached the result. Primary, open.
  [[nodiscard]] uint64_t begin_confirm(ReplicaOutput& out);
  [[nodiscard]] uint64_t confirmed_round() const { return confirmed_round_; }
  /// When the lease ends as things are; 0: there is none.
  [[nodiscard]] TimeNs lease_until() const;

 private:
  /// What is known of another replica.
  struct Peer {
    ReplicaId id;
    bool member = false;
    uint64_t join = 0;
    uint64_t join_goal = 0;  // ready when it has this, and is waited for from there on
    // Primary: its log. `matched`: its tail is known, entries flow.
    bool matched = false;
    bool needs_snapshot = false;
    bool refused = false;      // nothing can be sent to it just now
    bool asked_again = false;  // its tail was shorter than what it had acknowledged
    uint64_t agreed = 0;       // its last report showed the same entries up to here
    uint64_t next = 0;         // to be sent
    LogLevels acked;
    TimeNs last_send_ns = 0;
    uint64_t confirmed = 0;  // round
    TimeNs held_until = 0;   // its promise to us
    TimeNs heard_ns = 0;
    // What it said that it may lack, and what it must have for the doubt to be over.
    uint64_t doubt = 0;
    uint64_t restored_at = 0;
    // How long it takes to get an entry as far as it is waited for.
    uint64_t sample_index = 0;
    Durability sample_level = Durability::kSync;
    TimeNs sample_ns = 0;
    DurationNs latency_ns = 0;  // smoothed
    TimeNs slow_since = kTimeNever;
  };

  /// An entry of this reign that is not committed.
  struct Waiting {
    uint64_t index = 0;
    Durability level = Durability::kSync;
  };

  // replica.cc: views and time
  void adopt(const View& view, TimeNs now, ReplicaOutput& out);
  void take_change(const View& view, TimeNs now);
  void hear_of(const View& view, ReplicaOutput& out) const;
  void match_peers(TimeNs now, bool keep);
  [[nodiscard]] ReplicaRole role_in(const View& view) const;
  void heartbeat(TimeNs now, ReplicaOutput& out);
  [[nodiscard]] bool hears_nobody(TimeNs now) const;
  void look_for_silence(TimeNs now, ReplicaOutput& out) const;
  void report(ReplicaOutput& out, ReplicaReport::Kind kind, NodeId node, uint64_t join = 0) const;
  [[nodiscard]] Peer* peer(NodeId node);
  [[nodiscard]] bool in_epoch(NodeId from, uint64_t epoch, TimeNs now, ReplicaOutput& out);
  [[nodiscard]] bool speaks() const { return view_.epoch != 0 && persisted_epoch_ == view_.epoch; }

  // replica_primary.cc
  void begin_reign(ReplicaOutput& out);
  void on(NodeId from, const TailReport& tail, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const AppendReply& reply, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const HeartbeatReply& reply, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const ConfirmReply& reply, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const Release& release, TimeNs now, ReplicaOutput& out);
  void tell_restored(Peer& peer, ReplicaOutput& out) const;
  [[nodiscard]] const Waiting* waiting_entry(uint64_t index) const;
  void tell_agreed(Peer& peer, TimeNs now, ReplicaOutput& out) const;
  void note_acked(Peer& peer, const LogLevels& levels, TimeNs now);
  void stream(Peer& peer, TimeNs now, ReplicaOutput& out);
  void advance_commit(TimeNs now);
  [[nodiscard]] bool is_acked(const Waiting& entry) const;
  [[nodiscard]] TimeNs promises_end() const;
  [[nodiscard]] bool holds_promises(TimeNs now) const;
  [[nodiscard]] bool is_joining_anybody() const;
  void begin_round(ReplicaOutput& out);
  void ask_round(ReplicaOutput& out);
  void end_round(ReplicaOutput& out);
  void report_learners(TimeNs now, ReplicaOutput& out) const;
  void look_for_slowness(TimeNs now, ReplicaOutput& out);
  [[nodiscard]] NodeId only_one_behind() const;
  void look_for_hung_log(TimeNs now, ReplicaOutput& out);
  [[nodiscard]] static bool required(const Peer& peer);

  // replica_backup.cc
  void on(NodeId from, const StartView& start, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const Append& append, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const Heartbeat& heartbeat, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const Confirm& confirm, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const SnapshotNeeded& needed, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const StaleEpoch& stale, TimeNs now, ReplicaOutput& out);
  void on(NodeId from, const Restored& restored, TimeNs now, ReplicaOutput& out);
  void send_tail(ReplicaOutput& out) const;
  void learn_commit(uint64_t commit_index);
  [[nodiscard]] LogLevels verified_levels() const;

  const ReplicaOptions options_;
  const ReplicaId self_;

  View view_;                     // adopted, perhaps not yet durable
  uint64_t persisted_epoch_ = 0;  // 0 until the view of this life is durable
  ReplicaRole role_ = ReplicaRole::kInactive;
  uint64_t restart_epoch_ = 0;   // the view that was durable when this life began
  uint64_t given_up_epoch_ = 0;  // as its primary
  uint64_t doubt_ = 0;           // Restart::doubt, until it is over
  uint64_t fork_ = 0;            // the highest known
  NodeId released_to_ = 0;       // once the view is durable

  EpochRuns log_;
  LogLevels levels_;
  uint64_t commit_index_ = 0;
  uint64_t shown_ = UINT64_MAX;
  uint64_t verified_ = 0;      // up to here the log is the primary's
  bool is_verified_ = false;   // the primary has told in this epoch
  uint64_t known_commit_ = 0;  // the primary's word in this epoch
  TimeNs tail_again_ns_ = 0;
  uint64_t first_available_ = 1;
  bool log_stalled_ = false;

  std::map<NodeId, Peer> peers_;  // of the view, without self
  std::deque<Waiting> waiting_;   // primary
  bool open_ = false;
  uint64_t barrier_index_ = 0;
  struct {
    NodeId node = 0;
    uint64_t index = 0;
    TimeNs since = 0;
  } hung_;                                   // who alone held up which entry, at the last look
  std::map<NodeId, TimeNs> promised_until_;  // ours, to anybody
  TimeNs former_life_until_ = 0;             // what it may have promised
  uint64_t confirm_sent_ = 0;                // rounds
  uint64_t confirm_wanted_ = 0;
  uint64_t confirmed_round_ = 0;
  TimeNs next_heartbeat_ns_ = 0;
  TimeNs tell_commit_ns_ = kTimeNever;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_REPLICA_H_
