// LossDetector: which packets of one call are in flight, and which of them are lost.
//
// Detection uses time, after RACK (RFC 8985). Packets are kept in the order they were sent. Once a packet sent at time
// T is known to have arrived, every packet that was sent more than a reorder window before T and is still missing is
// lost. A packet that is sent again gets a new entry at the tail. RACK cannot see losses at the tail. For these there
// is a probe (probe_timeout): the newest packet in flight is sent again, and when it arrives, packets still missing
// before it are lost.
//
//      oldest                             newest
//      [u3-18 t=10] [u19-34 t=12] [u3 t=25] ...             u = units: request pieces 0..R-1,
//                                                           response pieces R..R+P-1
//
// Units with adjacent numbers that were sent at the same time share an entry. The session's credits bound the units in
// flight, so the ring grows only to what is needed.
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

  /// Units [first, first + count) were sent; count > 0.
  void on_sent(uint32_t first, uint32_t count, TimeNs now) {
    if (count_ > 0) {
      Entry& newest = at(count_ - 1);
      if (newest.end == first && newest.sent_ns == now) {
        newest.end += count;
        return;
      }
    }
    if (count_ == capacity_) [[unlikely]] {
      grow();
    }
    at(count_) = {first, first + count, now};
    ++count_;
  }
  void on_sent(uint32_t unit, TimeNs now) { on_sent(unit, 1, now); }

  /// Units [first, end) are known to have arrived. Constant time for arrivals in order; otherwise a scan of the entries
  /// in flight.
  void on_arrived(uint32_t first, uint32_t end) {
    uint32_t left = end - first;
    for (uint32_t i = 0; i < count_ && left > 0;) {
      Entry& entry = at(i);
      const uint32_t from = std::max(first, entry.first);
      const uint32_t to = std::min(end, entry.end);
      if (from >= to) {
        ++i;
        continue;
      }
      newest_arrived_sent_ns_ = std::max(newest_arrived_sent_ns_, entry.sent_ns);
      left -= to - from;
      if (i > 0 || from > entry.first) {
        ++i;  // the entry stays; detect() skips settled units
      } else if (to < entry.end) {
        entry.first = to;
        ++i;
      } else {
        pop_oldest();
      }
    }
  }
  void on_arrived(uint32_t unit) { on_arrived(unit, unit + 1); }

  /// Calls lost(unit), and forgets the unit, for each missing unit that was sent a reorder window before the newest
  /// arrival. `is_settled(unit)`: the unit has arrived or is no longer needed.
  template <typename IsSettled, typename Lost>
  void detect(DurationNs reorder_window_ns, IsSettled&& is_settled, Lost&& lost) {
    for (; count_ > 0; pop_oldest()) {
      Entry& oldest = ring_[head_];
      const bool is_old = oldest.sent_ns + reorder_window_ns < newest_arrived_sent_ns_;
      for (; oldest.first < oldest.end; ++oldest.first) {
        if (is_settled(oldest.first)) continue;
        if (!is_old) return;
        lost(oldest.first);
      }
    }
  }

  /// Calls lost(unit) for each missing unit in flight: the link broke.
  template <typename IsSettled, typename Lost>
  void lose_all(IsSettled&& is_settled, Lost&& lost) {
    for (; count_ > 0; pop_oldest()) {
      for (uint32_t unit = ring_[head_].first; unit < ring_[head_].end; ++unit) {
        if (!is_settled(unit)) lost(unit);
      }
    }
  }

  /// Removes the newest missing unit, to be sent again. False: nothing is in flight.
  template <typename IsSettled>
  bool take_probe(IsSettled&& is_settled, uint32_t& unit) {
    for (; count_ > 0; --count_) {
      Entry& newest = at(count_ - 1);
      while (newest.first < newest.end) {
        unit = --newest.end;
        if (!is_settled(unit)) {
          if (newest.first == newest.end) --count_;
          return true;
        }
      }
    }
    return false;
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

 private:
  struct Entry {
    uint32_t first;
    uint32_t end;
    TimeNs sent_ns;
  };

  /// The i-th oldest entry.
  [[nodiscard]] Entry& at(uint32_t i) { return ring_[(head_ + i) & (capacity_ - 1)]; }

  void pop_oldest() {
    head_ = (head_ + 1) & (capacity_ - 1);
    --count_;
  }

  [[gnu::noinline]] void grow() {
    const uint32_t capacity = capacity_ == 0 ? 4 : 2 * capacity_;
    auto larger = std::make_unique<Entry[]>(capacity);
    for (uint32_t i = 0; i < count_; ++i) larger[i] = at(i);
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
