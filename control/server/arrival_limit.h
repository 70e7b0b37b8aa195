// ArrivalLimit: how many connections one network may begin. Each costs a server a handshake, which with TLS has
// signatures, before anybody knows who it is: whoever begins thousands a second takes the processor from those who work.
//
// Each network has a bucket of kArrivalsAtOnce, which fills by kArrivalsPerSecond: so many clients of one address may
// come back at once when a server was away. Networks beyond kArrivalSourcesMax share one bucket. Pure: the time is an
// argument.
#ifndef SKUA_CONTROL_SERVER_ARRIVAL_LIMIT_H_
#define SKUA_CONTROL_SERVER_ARRIVAL_LIMIT_H_

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "control/server/controller_limits.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// An IPv4 address in the form of an IPv6 one, or the first half of an IPv6 address.
using Network = std::array<uint8_t, 16>;

/// All zero for addresses of other families.
[[nodiscard]] Network network_of(const sockaddr_storage& address);
/// "10.0.0.7", or "2001:db8:0:1::/64".
[[nodiscard]] std::string network_text(const Network& network);

/// Thread: one at a time.
class ArrivalLimit {
 public:
  /// False: one too many.
  bool admit(const Network& from, TimeNs now) {
    if (!buckets_.contains(from) && buckets_.size() >= kArrivalSourcesMax) forget_full(now);
    const bool room = buckets_.contains(from) || buckets_.size() < kArrivalSourcesMax;
    Bucket& bucket = room ? buckets_[from] : others_;
    bucket.spent_ns = spent_of(bucket, now);
    bucket.at_ns = now;
    if (bucket.spent_ns + kEachNs > kArrivalsAtOnce * kEachNs) return false;
    bucket.spent_ns += kEachNs;
    return true;
  }

 private:
  static constexpr DurationNs kEachNs = kSecond / kArrivalsPerSecond;

  /// In times: how long the bucket takes to be full again.
  struct Bucket {
    DurationNs spent_ns = 0;
    TimeNs at_ns = 0;
  };

  static DurationNs spent_of(const Bucket& bucket, TimeNs now) {
    return std::max<DurationNs>(bucket.spent_ns - (now - bucket.at_ns), 0);
  }
  void forget_full(TimeNs now) {
    std::erase_if(buckets_, [now](const auto& entry) { return spent_of(entry.second, now) == 0; });
  }

  std::map<Network, Bucket> buckets_;
  Bucket others_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_ARRIVAL_LIMIT_H_
