// ReplicaState: what the parts of a replica share. replica.h has the whole and its rules.
//
//    Replica    views, time, promises, and whose part a message is
//      |-- ReplicaState   view, role, own log, peers, promises      (here)
//      |-- Leadership     the primary's part                        (leadership.h)
//      +-- Follower       the part of backups and learners          (follower.h)
//
// Who changes it: Replica alone changes the view, the epochs, the role and the promises, before or after it calls a
// part. A part changes the log, the agreement, what is known of peers and the timer, by the messages that are its own.
// Follower also ends the doubt, when the primary says that this replica has again what it may have lost.
//
// It also has what each part needs before it takes a message or sends one: is the epoch durable, and is the sender of
// this epoch?
//
// Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_REPLICA_STATE_H_
#define SKUA_KVSTORE_REPLICATION_REPLICA_STATE_H_

#include <cstdint>

#include "kvstore/replication/agreement.h"
#include "kvstore/replication/heartbeat_timer.h"
#include "kvstore/replication/own_log.h"
#include "kvstore/replication/peer_replicas.h"
#include "kvstore/replication/promises.h"
#include "kvstore/replication/replica_options.h"
#include "kvstore/replication/replica_output.h"
#include "kvstore/replication/view.h"
#include "rpc/base/clock.h"

namespace skua::kv {

enum class ReplicaRole : uint8_t { kInactive, kPrimary, kBackup, kLearner };

/// "inactive", "primary", "backup", "learner".
[[nodiscard]] const char* replica_role_name(ReplicaRole role);

struct ReplicaState {
  ReplicaState(const ReplicaOptions& options_given, ReplicaId id, View last_view, OwnLog own_log);
  ReplicaState(const ReplicaState&) = delete;
  ReplicaState& operator=(const ReplicaState&) = delete;

  /// The view's epoch is durable here. Before that the replica sends nothing in it.
  [[nodiscard]] bool has_durable_epoch() const { return view.epoch != 0 && persisted_epoch == view.epoch; }
  [[nodiscard]] bool leads() const { return role == ReplicaRole::kPrimary; }
  [[nodiscard]] bool follows() const { return role == ReplicaRole::kBackup || role == ReplicaRole::kLearner; }
  /// The role that this replica has in a view, as soon as the view is durable.
  [[nodiscard]] ReplicaRole role_in(const View& other) const;
  /// The levels that this replica may acknowledge.
  [[nodiscard]] LogLevels verified_levels() const { return agreement.acknowledged(log.levels()); }

  /// The sender of a message of `epoch`, which it has been heard with. Null: the message must not be accepted. If the
  /// epochs differ, the one with the older view is told to get a newer one: the sender by StaleEpoch, this replica by
  /// fetch_view.
  [[nodiscard]] PeerReplica* admit(const ReplicaId& from, uint64_t epoch, TimeNs now, ReplicaOutput& out);
  /// A peer's view is only a hint: the replica adopts and persists views from the control plane only.
  void hear_of(const View& other, ReplicaOutput& out) const;

  void send_heartbeat(NodeId to, TimeNs now, ReplicaOutput& out) const;
  void report(ReplicaOutput& out, ReplicaReport::Kind kind, NodeId node, uint64_t join = 0) const;
  /// Reports the peers that are waited for and silent for too long.
  void report_silent(TimeNs now, ReplicaOutput& out) const;

  const ReplicaOptions options;
  const ReplicaId self;

  View view;                     ///< adopted, perhaps not yet durable
  uint64_t persisted_epoch = 0;  ///< the last epoch that became durable, or was confirmed, since the start; 0: none
  ReplicaRole role = ReplicaRole::kInactive;
  uint64_t given_up_epoch = 0;  ///< the epoch in which this replica cannot be the primary any more
  uint64_t doubt = 0;           ///< Replica::Restart::doubt, until it is over

  OwnLog log;
  Agreement agreement;
  PeerReplicas peers;  ///< members and learners of the view, without this replica
  Promises promises;   ///< those that this replica has given
  HeartbeatTimer timer;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_REPLICA_STATE_H_
