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
//   - A primary commits an entry of its own when every member has the entry with the durability that its writer
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
// Parts
//   - Replica: views, time, promises, and whose part a message is.
//   - Leadership leads (leadership.h), Follower follows (follower.h). Both work on one ReplicaState (replica_state.h).
//   - Each rule about one thing is a class of its own: the own log (own_log.h), how far it agrees with the primary's
//     (agreement.h), one peer and all peers (peer_replica.h, peer_replicas.h), a peer's log and what is sent to it
//     (peer_log.h), promises (promises.h), entries that wait for commit (commit_queue.h), rounds of Confirm
//     (confirm_rounds.h), slow and hung members (ack_latency.h, gray_failures.h), heartbeats (heartbeat_timer.h).
//
// Owns nothing outside of itself. Thread: one at a time. Peer input that makes no sense is refused, never asserted.
#ifndef SKUA_KVSTORE_REPLICATION_REPLICA_H_
#define SKUA_KVSTORE_REPLICATION_REPLICA_H_

#include <cstdint>
#include <optional>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/replication/follower.h"
#include "kvstore/replication/leadership.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/replica_options.h"
#include "kvstore/replication/replica_output.h"
#include "kvstore/replication/replica_state.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/durability.h"
#include "rpc/base/clock.h"

namespace skua::kv {

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
  void set_first_available(uint64_t index) { state_.log.set_first_available(index); }
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

  [[nodiscard]] ReplicaRole role() const { return state_.role; }
  [[nodiscard]] const View& view() const { return state_.view; }
  [[nodiscard]] uint64_t last_index() const { return state_.log.last_index(); }
  [[nodiscard]] uint64_t commit_index() const { return state_.log.commit_index(); }
  /// Reads at this replica show entries up to `index`. A primary tells its peers no higher commit index. Otherwise a
  /// read at a backup could show an entry that a later read at the primary does not show yet.
  void set_shown(uint64_t index) { state_.log.set_shown(index); }
  [[nodiscard]] const EpochHistory& log() const { return state_.log.entries(); }
  /// The replica may lack entries that it had acknowledged, and no primary has said Restored yet.
  [[nodiscard]] bool is_doubtful() const { return state_.doubt != 0; }
  /// This replica is the primary, and its barrier is committed.
  [[nodiscard]] bool open() const { return state_.leads() && leadership_.is_open(); }
  /// open(), the epoch is durable, and the view has at least min_insync members. (Without a durable epoch the replica
  /// could make other entries in the same epoch after a restart.)
  [[nodiscard]] bool can_propose() const;
  /// The Append for entries first..last: those of a Send, or of a part of one.
  [[nodiscard]] Append make_append(uint64_t first, uint64_t last) const { return leadership_.make_append(first, last); }
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
  [[nodiscard]] uint64_t confirmed_round() const { return leadership_.confirmed_round(); }

 private:
  void adopt(const View& view, TimeNs now, ReplicaOutput& out);
  void take_change(const View& view, TimeNs now);
  void match_peers(TimeNs now, bool keep);
  void on(const ReplicaId& from, const Heartbeat& heartbeat, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const HeartbeatReply& reply, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Confirm& confirm, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Release& release, TimeNs now);

  ReplicaState state_;
  Leadership leadership_{state_};
  Follower follower_{state_};

  const uint64_t restart_epoch_;  // epoch of the view that was durable at the start
  uint64_t fork_ = 0;             // the highest known fork
  NodeId released_to_ = 0;        // the primary to which a Release is sent when the view is durable
  bool log_stalled_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_REPLICA_H_
