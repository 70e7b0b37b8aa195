// Follower: the part of a replica that follows a primary, as a backup or as a learner.
//
//    primary                             follower
//    StartView    ------------------->   where does your log end?
//                 <-------------------   TailReport; repeated until an Append proves where the logs agree
//    Append       ------------------->   takes over the primary's entries, in place of its own that differ
//                 <-------------------   AppendReply: what its log has of the entries that agree
//    SnapshotNeeded ----------------->   fetches a snapshot, but first makes sure that the primary knows its log
//    Restored     ------------------->   its doubt is over: it lacks nothing that it had acknowledged
//
// It acknowledges and commits only entries that agree with the primary's log (agreement.h). Entries are acknowledged
// when they are written or durable. Received entries are acknowledged at once only if the primary asks for that.
//
// `state` must outlive it. Thread: that of the replica. A message that makes no sense is ignored.
#ifndef SKUA_KVSTORE_REPLICATION_FOLLOWER_H_
#define SKUA_KVSTORE_REPLICATION_FOLLOWER_H_

#include <cstdint>

#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/replica_output.h"
#include "kvstore/replication/replica_state.h"
#include "kvstore/replication/view.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class Follower {
 public:
  explicit Follower(ReplicaState& state) : state_(state) {}

  void on(const ReplicaId& from, const StartView& start, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Append& append, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const SnapshotNeeded& needed, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const Restored& restored, TimeNs now, ReplicaOutput& out);

  /// The own log's levels have changed; they were `before`.
  void log_moved(const LogLevels& before, ReplicaOutput& out);
  /// The primary says that the entries up to `index` are committed.
  void learn_commit(uint64_t index);
  /// Tells the primary what this log has.
  void send_tail(ReplicaOutput& out) const;
  /// The connection to a peer is new, or has room again. The primary may not have received the last report.
  void peer_ready(NodeId node, ReplicaOutput& out) const;
  /// A heartbeat is due. Only if this replica follows.
  void heartbeat(TimeNs now, ReplicaOutput& out);

 private:
  ReplicaState& state_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_FOLLOWER_H_
