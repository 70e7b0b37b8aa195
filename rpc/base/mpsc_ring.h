// A bounded queue with many producers and one consumer, without locks.
//
// Dmitry Vyukov's bounded queue (1024cores.net). Each cell has a sequence number that says whose turn it is, so
// producers contend only for `tail_`, and do not wait for each other to finish copying.
//
//      head_ (consumer)        tail_ (producers)
//        v                       v
//   [ . | A | B | C | . | . | . | . ]      cell.sequence == position      : free for the producer of that position
//                                          cell.sequence == position + 1  : filled, the consumer may take it
#ifndef SKUA_RPC_BASE_MPSC_RING_H_
#define SKUA_RPC_BASE_MPSC_RING_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace skua {

template <typename T>
class MpscRing {
 public:
  /// Holds `capacity` elements, rounded up to a power of two.
  explicit MpscRing(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? size_t{2} : capacity) - 1), cells_(new Cell[mask_ + 1]) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
  }

  /// Moves `value` into the ring. False: the ring is full, and `value` is untouched. Thread: any.
  [[nodiscard]] bool try_push(T&& value) {
    return try_fill([&value](T& cell) { cell = std::move(value); });
  }

  /// Calls `fill(element)` with the next element, which is a T{}, and which the consumer gets when the call has
  /// returned. False: the ring is full, and nothing was called. Thread: any.
  template <typename Fill>
  [[nodiscard]] bool try_fill(Fill fill) {
    size_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const size_t sequence = cell.sequence.load(std::memory_order_acquire);
      if (sequence == position) {
        if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
          fill(cell.value);
          cell.sequence.store(position + 1, std::memory_order_release);
          return true;
        }
      } else if (static_cast<std::ptrdiff_t>(sequence - position) < 0) {
        return false;
      } else {
        position = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  /// Moves the oldest element into `out`. False: the ring is empty. Thread: the consumer's only.
  [[nodiscard]] bool try_pop(T& out) {
    Cell& cell = cells_[head_ & mask_];
    if (cell.sequence.load(std::memory_order_acquire) != head_ + 1) return false;
    out = std::move(cell.value);
    cell.value = T{};
    cell.sequence.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return true;
  }

  /// True: nothing can be popped now. Thread: the consumer's only.
  [[nodiscard]] bool empty() const {
    return cells_[head_ & mask_].sequence.load(std::memory_order_acquire) != head_ + 1;
  }

  [[nodiscard]] size_t capacity() const { return mask_ + 1; }

 private:
  static constexpr size_t kCacheLine = 64;
  struct Cell {
    std::atomic<size_t> sequence;
    T value{};
  };

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kCacheLine) std::atomic<size_t> tail_{0};
  alignas(kCacheLine) size_t head_ = 0;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_MPSC_RING_H_
