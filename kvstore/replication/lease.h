// Promises between replicas, which let one of them answer reads without asking the others.
//
//    holder y                       grantor x
//    Heartbeat at send  -------->   at recv: "until my clock shows recv + L (1 + eps), should I be primary of a view in
//                                   which you are not primary any more, I commit nothing in it"
//    may use it until   <--------
//    send + L (1 - eps)             send <= recv, and no two clocks drift apart by more than eps: y stops first
//
// The lease of a primary holds while every other member's promise does (and that of a learner that is joining). A new
// primary was a member, so its own promise was needed: waiting for its own promises is enough, also over several quick
// changes of view. A replica that starts again has forgotten its promises and waits as if it had just made one.
//
// With read_anywhere the promise is "in which you are not a member any more": members need those of all others to serve.
#ifndef SKUA_KVSTORE_REPLICATION_LEASE_H_
#define SKUA_KVSTORE_REPLICATION_LEASE_H_

#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

struct LeaseOptions {
  DurationNs length_ns = 400 * kMillisecond;
  /// Two clocks drift apart by at most this much in a million.
  int64_t drift_ppm = 1000;

  /// How long the holder counts on a promise, from when it asked.
  [[nodiscard]] constexpr DurationNs held_ns() const { return length_ns - length_ns * drift_ppm / 1'000'000 - 1; }
  /// How long the grantor keeps it, from when it was asked.
  [[nodiscard]] constexpr DurationNs promised_ns() const { return length_ns + length_ns * drift_ppm / 1'000'000 + 1; }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_LEASE_H_
