// Leases: promises between replicas, which let a replica answer reads without asking the others.
//
//    holder y                       grantor x
//    Heartbeat at send  -------->   at recv: "until my clock shows recv + L (1 + eps): if I become primary of a view in
//                                   which you are not primary any more, I commit nothing in it"
//    may use it until   <--------
//    send + L (1 - eps)             send <= recv, and no two clocks drift apart by more than eps: y stops first
//
// A primary's lease holds while it has an unexpired promise of every other member and of every joining learner. A new
// primary was a member before, so the old primary's lease needed its promise. So it is enough that a new primary waits
// until its own promises have expired, also after several quick changes of view. A restarted replica does not know its
// former promises, so it waits as if it had just made one.
//
// With read_anywhere the promise is about views "in which you are not a member any more". A backup may then serve reads
// while it has the promises of all other members.
#ifndef SKUA_KVSTORE_REPLICATION_LEASE_H_
#define SKUA_KVSTORE_REPLICATION_LEASE_H_

#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

struct LeaseOptions {
  DurationNs length_ns = 400 * kMillisecond;
  /// Two clocks drift apart by at most this many parts in a million.
  int64_t drift_ppm = 1000;

  /// How long the holder may rely on a promise, from the time when it asked.
  [[nodiscard]] constexpr DurationNs held_ns() const { return length_ns - length_ns * drift_ppm / 1'000'000 - 1; }
  /// How long the grantor keeps a promise, from the time when it was asked.
  [[nodiscard]] constexpr DurationNs promised_ns() const { return length_ns + length_ns * drift_ppm / 1'000'000 + 1; }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_LEASE_H_
