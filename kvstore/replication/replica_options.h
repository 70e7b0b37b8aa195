// The times and limits of a replica.
#ifndef SKUA_KVSTORE_REPLICATION_REPLICA_OPTIONS_H_
#define SKUA_KVSTORE_REPLICATION_REPLICA_OPTIONS_H_

#include <cstdint>

#include "kvstore/replication/lease.h"
#include "rpc/base/clock.h"

namespace skua::kv {

struct ReplicaOptions {
  LeaseOptions lease;
  bool leases = true;  ///< false: every linearizable read asks the members (Confirm)
  DurationNs heartbeat_ns = 50 * kMillisecond;
  DurationNs suspect_after_ns = 300 * kMillisecond;  ///< a peer that is silent for longer is suspected
  DurationNs first_word_ns = 2 * kSecond;            ///< extra time for a peer that has not spoken in this epoch yet
  DurationNs tell_commit_ns = kMillisecond;          ///< members hear of a commit after this time at the latest
  DurationNs tail_again_ns = 5 * kMillisecond;       ///< a gap before received entries is reported once in this time
  uint64_t append_entries_max = 256;                 ///< entries of one Append
  uint64_t window_entries_max = 4096;                ///< entries that were sent to a peer and are not acknowledged
  uint64_t caught_up_entries = 1024;                 ///< a learner that lags by no more entries may join
  // When a slow member is reported, so that it is removed, while there are more than min_insync members (gray
  // failures). A member is slow if its latency exceeds both slow_floor_ns and slow_ratio times the fastest other
  // member's latency for slow_after_ns.
  DurationNs slow_after_ns = 200 * kMillisecond;
  DurationNs slow_floor_ns = 20 * kMillisecond;
  int64_t slow_ratio = 5;
  DurationNs hung_after_ns = kSecond;  ///< one log alone lacks an entry for this long that all others have made safe
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_REPLICA_OPTIONS_H_
