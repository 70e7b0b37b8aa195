// PeerReplica: what a replica knows of another one of its shard.
//
//    id, member, join       from the view: is it waited for?
//    log, latency           at the primary: its log, and how fast it acknowledges (peer_log.h, ack_latency.h)
//    heard_ns               its silence
//    held_until             its promise to this replica (lease.h)
//    confirmed              the last round of Confirm that it answered (confirm_rounds.h)
//    doubt, restored_at     it may lack entries that it acknowledged; when it has them all again, it is told
//
// A commit, a lease and a round of Confirm need each required peer: each member, and each learner during its attempt
// to join. A learner that only follows the log is not waited for.
//
// A value type. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_PEER_REPLICA_H_
#define SKUA_KVSTORE_REPLICATION_PEER_REPLICA_H_

#include <algorithm>
#include <cstdint>

#include "kvstore/replication/ack_latency.h"
#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/peer_log.h"
#include "kvstore/replication/view.h"
#include "rpc/base/clock.h"

namespace skua::kv {

struct PeerReplica {
  ReplicaId id;
  bool member = false;
  uint64_t join = 0;
  uint64_t join_goal = 0;  ///< commit index when the attempt began: ready when it has this; later commits wait for it
  PeerLog log;
  AckLatency latency;
  bool asked_for_room = false;  ///< since the last heartbeat, when its connection had room again
  uint64_t confirmed = 0;
  TimeNs held_until = 0;
  TimeNs heard_ns = 0;  ///< when it was last heard; may lie in the future, to give it more time
  uint64_t doubt = 0;
  uint64_t restored_at = 0;  ///< the entry that must be durable in its log for the doubt to be over

  [[nodiscard]] bool is_required() const;
  [[nodiscard]] bool is_silent(TimeNs now, DurationNs patience) const { return now - heard_ns > patience; }
  /// Silence before `since` does not count.
  void give_time(TimeNs since) { heard_ns = std::max(heard_ns, since); }

  /// Nothing of a former leadership counts, and no silence before `since`.
  void start_anew(TimeNs since) {
    log.forget();
    latency.abandon();
    confirmed = doubt = 0;
    heard_ns = since;
  }
  /// It has acknowledged these levels. Those behind `last_index`, the end of the primary's log, are not believed.
  void acknowledge(const LogLevels& levels, uint64_t last_index, TimeNs now) {
    log.acknowledge(levels.up_to(last_index));
    latency.acked(log.acked(), now);
  }
  /// It reports this doubt, or 0. All entries that were committed before a new doubt are at or below `last_index`.
  void note_doubt(uint64_t reported, uint64_t last_index) {
    if (reported == doubt) return;
    doubt = reported;
    restored_at = last_index;
  }
  [[nodiscard]] bool is_restored() const { return doubt != 0 && log.acked().durable >= restored_at; }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_PEER_REPLICA_H_
