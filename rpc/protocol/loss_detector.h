// LossDetector: which packets of one call are in flight, and which of those are lost.
//
// Time-based detection after RACK (RFC 8985): packets are kept in the order they were sent; once a
// packet sent at time T is known to have arrived, every packet sent more than a reorder window
// before T and still missing is lost. A packet that is sent again gets a new entry at the tail.
// What RACK cannot see, the tail, is covered by a probe (probe_timeout): the newest packet in
// flight is sent again, and its arrival condemns whatever is missing before it.
//
//      oldest                                   newest
//      [u3 t=10] [u4 t=10] [u7 t=12] [u3 t=25] ...          u = unit: request pieces 0..R-1,
//      response pieces R..R+P-1
//
// Units in flight are bounded by the session's credits; the ring grows once to that size.
#ifndef SKUA_RPC_PROTOCOL_LOSS_DETECTOR_H_
#define SKUA_RPC_PROTOCOL_LOSS_DETECTOR_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "rpc/base/clock.h"

namespace skua::rpc {

class LossDetector {
 public:
  void reset() {
    head_ = count_ = 0;
    newest_arrived_sent_ns_ = 0;
  }

  void on_sent(uint32_t unit, TimeNs now) {
    if (count_ == capacity_) [[unlikely]] {
      grow();
    }
    ring_[(head_ + count_) & (capacity_ - 1)] = {unit, now};
    ++count_;
  }

  /// `unit` is known to have arrived. Constant time for arrivals in order; else a scan of what is
  /// in flight.
  void on_arrived(uint32_t unit) {
    for (uint32_t i = 0; i < count_; ++i) {
      const Entry& entry = ring_[(head_ + i) & (capacity_ - 1)];
      if (entry.unit != unit) continue;
      newest_arrived_sent_ns_ = std::max(newest_arrived_sent_ns_, entry.sent_ns);
      if (i == 0) pop_oldest();
      return;
    }
  }

  /// Calls lost(unit) for each missing unit sent a reorder window before the newest arrival, and
  /// forgets it. `is_settled(unit)` tells which need no more care.
  template <typename IsSettled, typename Lost>
  void detect(DurationNs reorder_window_ns, IsSettled&& is_settled, Lost&& lost) {
    while (count_ > 0) {
      const Entry& oldest = ring_[head_];
      if (!is_settled(oldest.unit)) {
        if (oldest.sent_ns + reorder_window_ns >= newest_arrived_sent_ns_) return;
        lost(oldest.unit);
      }
      pop_oldest();
    }
  }

  /// Calls lost(unit) for everything in flight and missing: the link broke.
  template <typename IsSettled, typename Lost>
  void lose_all(IsSettled&& is_settled, Lost&& lost) {
    for (; count_ > 0; pop_oldest()) {
      if (!is_settled(ring_[head_].unit)) lost(ring_[head_].unit);
    }
  }

  /// Takes the newest missing unit out to be sent again; false if nothing is in flight.
  template <typename IsSettled>
  bool take_probe(IsSettled&& is_settled, uint32_t& unit) {
    while (count_ > 0) {
      unit = ring_[(head_ + count_ - 1) & (capacity_ - 1)].unit;
      --count_;
      if (!is_settled(unit)) return true;
    }
    return false;
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

 private:
  struct Entry {
    uint32_t unit;
    TimeNs sent_ns;
  };

  void pop_oldest() {
    head_ = (head_ + 1) & (capacity_ - 1);
    --count_;
  }

  [[gnu::noinline]] void grow() {
    const uint32_t capacity = capacity_ == 0 ? 4 : 2 * capacity_;
    auto larger = std::make_unique<Entry[]>(capacity);
    for (uint32_t i = 0; i < count_; ++i) larger[i] = ring_[(head_ + i) & (capacity_ - 1)];
    ring_ = std::move(larger);
    capacity_ = capacity;
    head_ = 0;
  }

  std::unique_ptr<Entry[]> ring_;
  uint32_t capacity_ = 0;  // a power of two
  uint32_t head_ = 0;
  uint32_t count_ = 0;
  TimeNs newest_arrived_sent_ns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_LOSS_DETECTOR_H_
