// Pacer: when the next packet of a session may leave.
//
//   departure   each packet moves it on by the packet's gap  |--gap--|--gap--|
//                                                  now ------+-------^ departure: wait until here
//
// The state is one number, so an idle session costs nothing. A session does not catch up after a pause: the departure
// then lies in the past, and at most kBurstNs of the pause count as saved. (The event loop's turns are not exactly on
// time; without this allowance each late turn would lower the rate.) The session waits for its departure in the
// endpoint's timer heap: O(log sessions that wait).
#ifndef SKUA_RPC_PROTOCOL_PACER_H_
#define SKUA_RPC_PROTOCOL_PACER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/protocol/congestion.h"
#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {

class Pacer {
 public:
  static constexpr DurationNs kBurstNs = 10 * kMicrosecond;

  void reset() { departure_ns_ = 0; }
  [[nodiscard]] bool due(TimeNs now) const { return departure_ns_ <= now || mutant(Mutant::kIgnoreDeparture); }
  [[nodiscard]] TimeNs departure_ns() const { return departure_ns_; }
  /// A packet of `bytes` left.
  void charge(const CongestionLimits& limits, size_t bytes, TimeNs now) {
    const DurationNs gap = limits.packet_gap_ns + static_cast<DurationNs>(bytes * limits.byte_gap_ps / 1000);
    departure_ns_ = std::max(departure_ns_, now - kBurstNs) + gap;
  }

 private:
  TimeNs departure_ns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_PACER_H_
