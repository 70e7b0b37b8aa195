// ReadProgress: whether READs of messages make progress with one peer, and for how long messages go in packets if not.
// Pure: time is an argument.
//
// After a lost packet an adapter repeats everything since that packet (go-back-n), and waits for its own timeouts in
// between. Over a wire that loses one packet in a hundred, large READs make almost no progress. The engine does,
// because it repeats only the missing packet. And if a peer is cut off, it takes seconds until the adapter reports it.
//
//    READs under way, none ends for 250 ms: stalled      the owner ends the connection, so that they fail and their
//                                                        messages go in packets, and holds READs back:
//    held back for 1 s, after the next stall 2 s, ... 32 s      then they get another try; 16 MiB without a stall
//                                                               forget the stalls before
#ifndef SKUA_RPC_TRANSPORT_VERBS_READ_PROGRESS_H_
#define SKUA_RPC_TRANSPORT_VERBS_READ_PROGRESS_H_

#include <algorithm>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::rpc::verbs {

/// The state of READs with one peer. It outlives connections. Thread: the transport's.
class ReadProgress {
 public:
  /// A READ that an adapter repeats once takes about 70 ms, or several times that if the adapter waits longer each
  /// time.
  static constexpr DurationNs kStalledAfter = 250 * kMillisecond;
  static constexpr DurationNs kHoldFirst = kSecond;
  static constexpr DurationNs kHoldMax = 32 * kSecond;
  static constexpr uint64_t kTrustedBytes = 16u << 20;

  void on_post(TimeNs now) {
    if (in_flight_++ == 0) last_ns_ = now;
  }
  /// A READ ended. `bytes`: what it brought; 0: it failed.
  void on_end(uint32_t bytes, TimeNs now) {
    --in_flight_;
    last_ns_ = now;
    moved_bytes_ += bytes;
    if (moved_bytes_ >= kTrustedBytes) hold_ns_ = kHoldFirst;
  }

  [[nodiscard]] uint32_t in_flight() const { return in_flight_; }
  [[nodiscard]] bool is_stalled(TimeNs now) const { return in_flight_ > 0 && now - last_ns_ >= kStalledAfter; }
  /// Holds READs back. The READs under way are about to end.
  void hold_back(TimeNs now) {
    held_until_ns_ = now + hold_ns_;
    hold_ns_ = std::min(2 * hold_ns_, kHoldMax);
    moved_bytes_ = 0;
  }
  /// True if READs were ever held back. If false, is_held() need not be called.
  [[nodiscard]] bool was_held() const { return held_until_ns_ != 0; }
  [[nodiscard]] bool is_held(TimeNs now) const { return now < held_until_ns_; }

 private:
  uint32_t in_flight_ = 0;
  TimeNs last_ns_ = 0;  // when a READ last ended, or the first of those in flight was posted
  uint64_t moved_bytes_ = 0;
  TimeNs held_until_ns_ = 0;
  DurationNs hold_ns_ = kHoldFirst;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_READ_PROGRESS_H_
