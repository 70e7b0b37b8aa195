// One replica of one shard, as a pure state machine. Its input is views, messages, events and the time; its output says
// what the driver must do. It knows only the identities of entries. The driver has their bytes, the log and the
// network.
//
//              control plane: views            own log: its levels
//                     |                               |
//    peers -------> Replica -- Output ---> messages, entries to log, view to store, reports to the control plane
//    driver: propose(), tick() ----^        committed up to, role
//
// Roles within a view
//
//    kInactive --view--> kBackup  <-> kPrimary (opening -> open)        kLearner --a view with it as member--> kBackup
//        restart: inactive until the control plane has told the current view; a restarted primary needs a new epoch
//
// Rules (PacificA, with the epochs of Vertical Paxos)
//   - A primary commits an entry of its own reign when every member has the entry with the durability that its writer
//     asked for. Entries of former primaries are committed together with the BARRIER, the first entry of each new
//     primary.
//   - A new primary's log is authoritative. Another replica drops its entries behind the last one that both logs have:
//     these were not committed, because a commit would have needed the new primary's acknowledgement.
//   - A replica sends nothing in an epoch before its adoption of the epoch is durable, and nothing in an older epoch
//     after that.
//   - Acknowledgements cover only entries that are known to agree with the primary's log ("verified"). The `prev` of an
//     Append shows which entries agree.
//   - Reads at the primary rest on promises (lease.h) or on a round of Confirm: a member that answers has not left the
//     epoch.
//   - A joining learner counts as a member for commits and leases while the view has its attempt to join.
//
// Owns nothing outside of itself. Thread: one at a time. Peer input that makes no sense is refused, never asserted.
#ifndef SKUA_KVSTORE_REPLICATION_REPLICA_H_
#define SKUA_KVSTORE_REPLICATION_REPLICA_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/own_log.h"
#include "kvstore/replication/replica_options.h"
#include "kvstore/replication/replica_output.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/durability.h"
#include "rpc/base/clock.h"

namespace skua::kv {

enum class ReplicaRole : uint8_t { kInactive, kPrimary, kBackup, kLearner };

/// "inactive", "primary", "backup", "learner".
[[nodiscard]] const char* replica_role_name(ReplicaRole role);

class Replica {
 public:
  /// What a replica finds on its disk when it starts.
  struct Restart {
    View view;                  ///< the view persisted last; epoch 0: none
    EpochHistory log;           ///< all of its entries are durable
    uint64_t commit_index = 0;  ///< entries up to this one are known to be committed; the log's base is, too
    /// Not 0: a power cut may have taken entries that the replica had acknowledged as written. Each such power cut of
    /// this replica has another number.
    uint64_t doubt = 0;
  };

  Replica(const ReplicaOptions& options, ReplicaId self, Restart restart, TimeNs now);

  // --- Input

  /// A view from the control plane. Older views are ignored.
  void on_view(const View& view, TimeNs now, ReplicaOutput& out);
  /// The view of this epoch, or a later view, is durable.
  void view_persisted(uint64_t epoch, TimeNs now, ReplicaOutput& out);
  /// A message from a peer. `from` is the node whose connection it came on, with the storage incarnation that the
  /// message has. Under another incarnation than the view's the node is another replica, which only has hints to give.
  void on_message(const ReplicaId& from, const ReplicaMessage& message, TimeNs now, ReplicaOutput& out);
  /// The connection to a peer broke, or could not be made.
  void peer_failed(NodeId peer, TimeNs now, ReplicaOutput& out);
  /// The connection to a peer was full, or there was none: entries from `first` on were not sent. No entries are sent
  /// to the peer until peer_ready() or peer_has_room(), or until the peer's next TailReport or HeartbeatReply.
  void send_refused(NodeId peer, uint64_t first);
  /// The connection to a peer is new.
  void peer_ready(NodeId peer, TimeNs now, ReplicaOutput& out);
  /// The connection to a peer was full, and has room again. Questions are repeated once per heartbeat at most.
  void peer_has_room(NodeId peer, TimeNs now, ReplicaOutput& out);
  /// False after send_refused().
  [[nodiscard]] bool may_send(NodeId peer) const;
  /// Only if can_propose(): the driver logs entry last_index() + 1, with the epoch of the entry before it (the
  /// barrier's). The entry is committed when all members have it with durability `level`, which must not be kDefault.
  void propose(Durability level, TimeNs now, ReplicaOutput& out);
  /// The log had no room for the entries behind `index`, and has been given no entry since. A primary cannot go on in
  /// its epoch then: peers may have these entries, so their indices must not be used again in it.
  void log_refused_after(uint64_t index, ReplicaOutput& out);
  /// The levels of the own log, for the entries that it has now. Levels of entries that were replaced do not count.
  void log_progress(const LogLevels& levels, TimeNs now, ReplicaOutput& out);
  /// While the log makes no progress although it should (`stalled`), the replica makes no promises to others.
  void set_log_stalled(bool stalled) { log_stalled_ = stalled; }
  /// Entries before `index` cannot be read from the log any more.
  void set_first_available(uint64_t index) { first_available_ = index; }
  /// To be called before a snapshot that ends with `base` replaces the state. This may be long after the snapshot was
  /// fetched; by then the log may have acknowledged entries behind it.
  [[nodiscard]] SnapshotFit snapshot_fit(EntryId base) const;
  /// The state is now that of a snapshot which ends with `base`, and the log was treated as snapshot_fit() said.
  void install_snapshot(EntryId base, TimeNs now, ReplicaOutput& out);
  /// The driver did not run between these times, so it neither sent nor received. The silence of that time does not
  /// count against the peers.
  void paused(TimeNs from, TimeNs until);
  /// To be called at wake_at(), or more often.
  void tick(TimeNs now, ReplicaOutput& out);
  /// The next time at which the passing of time alone may change something.
  [[nodiscard]] TimeNs wake_at() const;

  // --- What it knows

  [[nodiscard]] ReplicaRole role() const { return role_; }
  [[nodiscard]] const View& view() const { return view_; }
  [[nodiscard]] uint64_t last_index() const { return log_.last_index(); }
  [[nodiscard]] uint64_t commit_index() const { return commit_index_; }
  /// Reads at this replica show entries up to `index`. A primary tells its peers no higher commit index. Otherwise a
  /// read at a backup could show an entry that a later read at the primary does not show yet.
  void set_shown(uint64_t index) { shown_ = index; }
  [[nodiscard]] const EpochHistory& log() const { return log_; }
  /// The replica may lack entries that it had acknowledged, and no primary has said Restored yet.
  [[nodiscard]] bool is_doubtful() const { return doubt_ != 0; }
  /// This replica is the primary, and its barrier is committed.
  [[nodiscard]] bool open() const { return role_ == ReplicaRole::kPrimary && open_; }
  /// open(), the epoch is durable, and the view has at least min_insync members. (Without a durable epoch the replica
  /// could make other entries in the same epoch after a restart.)
  [[nodiscard]] bool can_propose() const { return open() && speaks() && view_.members.size() >= view_.min_insync; }
  /// The Append for entries first..last: those of a Send, or of a part of one.
  [[nodiscard]] Append make_append(uint64_t first, uint64_t last) const;
  /// The lowest index of an entry that must stay readable, because a peer may still need it or it is not committed
  /// here; last_index() + 1 if there is none.
  [[nodiscard]] uint64_t needed_from() const;
  /// The levels that a peer has acknowledged, for status. nullopt: the view does not have this peer.
  [[nodiscard]] std::optional<LogLevels> peer_levels(NodeId peer) const;

  // --- Reads. The driver first reads the value, then asks here whether it may be answered as linearizable.

  /// Primary: the lease holds at `now`. Backup with read_anywhere: the promises of all other members hold; the answer
  /// is only for keys that no entry behind commit_index() touches.
  [[nodiscard]] bool may_serve_read(TimeNs now) const;
  /// Begins a round of Confirm, or joins one that has not begun. The read may be answered when confirmed_round() has
  /// reached the result. Only while open().
  [[nodiscard]] uint64_t begin_confirm(ReplicaOutput& out);
  [[nodiscard]] uint64_t confirmed_round() const { return confirmed_round_; }
  /// When the lease ends unless it is renewed; 0: there is no lease.
  [[nodiscard]] TimeNs lease_until() const;

 private:
  /// What this replica knows of another one.
  struct Peer {
    ReplicaId id;
    bool member = false;
    uint64_t join = 0;
    uint64_t join_goal = 0;  // commit index when the attempt began: ready when it has this; later commits wait for it
    // At the primary: the peer's log. `matched`: its tail is known, and entries are sent to it.
    bool matched = false;
    bool needs_snapshot = false;
    bool asked_for_room = false;  // since the last heartbeat, when its connection had room again
    bool refused = false;         // entries cannot be sent to it now
    bool asked_again = false;     // its tail was shorter than its acknowledgements, so it was asked for its tail again
    uint64_t agreed = 0;          // its last report agreed with this log up to here
    uint64_t next = 0;            // the next entry to be sent
    LogLevels acked;
    TimeNs last_send_ns = 0;
    uint64_t confirmed = 0;  // the last round of Confirm that it answered
    TimeNs held_until = 0;   // end of its promise to this replica
    TimeNs heard_ns = 0;     // when it was last heard; may lie in the future, to give it more time
    // The doubt that it reported, and the entry that must be durable in its log for the doubt to be over.
    uint64_t doubt = 0;
    uint64_t restored_at = 0;
    // Measures how long the peer takes to acknowledge an entry at the entry's durability.
    uint64_t sample_index = 0;
    Durability sample_level = Durability::kSync;
    TimeNs sample_ns = 0;
    DurationNs latency_ns = 0;  // smoothed
    TimeNs slow_since = kTimeNever;
  };

  /// An entry of this reign that is not committed yet.
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
  [[nodiscard]] Peer* sender(const ReplicaId& from);
  [[nodiscard]] bool in_epoch(const ReplicaId& from, uint64_t epoch, TimeNs now, ReplicaOutput& out);
  [[nodiscard]] bool speaks() const { return view_.epoch != 0 && persisted_epoch_ == view_.epoch; }

  // replica_primary.cc
  void begin_reign(ReplicaOutput& out);
  void on(const ReplicaId& from, const TailReport& tail, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const AppendReply& reply, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const HeartbeatReply& reply, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const ConfirmReply& reply, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Release& release, TimeNs now, ReplicaOutput& out);
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
  void on(const ReplicaId& from, const StartView& start, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Append& append, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Heartbeat& heartbeat, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Confirm& confirm, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const SnapshotNeeded& needed, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const StaleEpoch& stale, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Restored& restored, TimeNs now, ReplicaOutput& out);
  void send_tail(ReplicaOutput& out) const;
  void learn_commit(uint64_t commit_index);
  [[nodiscard]] LogLevels verified_levels() const;

  const ReplicaOptions options_;
  const ReplicaId self_;

  View view_;                     // adopted, perhaps not yet durable
  uint64_t persisted_epoch_ = 0;  // the last epoch that became durable, or was confirmed, since the start; 0: none
  ReplicaRole role_ = ReplicaRole::kInactive;
  uint64_t restart_epoch_ = 0;   // epoch of the view that was durable at the start
  uint64_t given_up_epoch_ = 0;  // the epoch in which this replica cannot be the primary any more
  uint64_t doubt_ = 0;           // Restart::doubt, until it is over
  uint64_t fork_ = 0;            // the highest known fork
  NodeId released_to_ = 0;       // the primary to which a Release is sent when the view is durable

  EpochHistory log_;
  LogLevels levels_;
  uint64_t commit_index_ = 0;
  uint64_t shown_ = UINT64_MAX;
  uint64_t verified_ = 0;      // up to here the log agrees with the primary's
  bool is_verified_ = false;   // an Append of this epoch has shown where the logs agree
  uint64_t known_commit_ = 0;  // the primary's commit index, as far as it is known in this epoch
  TimeNs tail_again_ns_ = 0;
  uint64_t first_available_ = 1;
  bool log_stalled_ = false;

  std::map<NodeId, Peer> peers_;  // members and learners of the view, without this replica
  std::deque<Waiting> waiting_;   // primary only; sorted by index
  bool open_ = false;
  uint64_t barrier_index_ = 0;
  struct {
    NodeId node = 0;
    uint64_t index = 0;
    TimeNs since = 0;
  } hung_;                                   // the node that alone held up an entry, at the last check
  std::map<NodeId, TimeNs> promised_until_;  // ends of this replica's promises, by holder
  TimeNs former_life_until_ = 0;             // end of promises that may have been made before the restart
  uint64_t confirm_sent_ = 0;                // the last round of Confirm that began
  uint64_t confirm_wanted_ = 0;              // the last round that a read waits for
  uint64_t confirmed_round_ = 0;
  TimeNs next_heartbeat_ns_ = 0;
  TimeNs tell_commit_ns_ = kTimeNever;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_REPLICA_H_
