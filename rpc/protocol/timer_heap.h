// TimerHeap: one timer per id, earliest first. An indexed binary heap: set, move and cancel take O(log n).
#ifndef SKUA_RPC_PROTOCOL_TIMER_HEAP_H_
#define SKUA_RPC_PROTOCOL_TIMER_HEAP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "rpc/base/clock.h"

namespace skua::rpc {

/// Ids are small integers; memory is proportional to the largest used.
class TimerHeap {
 public:
  /// The time of `id`; kTimeNever if it is not set.
  [[nodiscard]] TimeNs when(uint32_t id) const {
    return id < position_.size() && position_[id] != kNowhere ? heap_[position_[id]].when : kTimeNever;
  }

  /// Sets or replaces the time of `id`; kTimeNever cancels it.
  void set(uint32_t id, TimeNs when) {
    if (id >= position_.size()) position_.resize(id + 1, kNowhere);
    uint32_t at = position_[id];
    if (when == kTimeNever) {
      if (at != kNowhere) remove(at);
      return;
    }
    if (at == kNowhere) {
      at = static_cast<uint32_t>(heap_.size());
      heap_.push_back({when, id});
      position_[id] = at;
      sift_up(at);
      return;
    }
    const TimeNs before = std::exchange(heap_[at].when, when);
    when < before ? sift_up(at) : sift_down(at);
  }

  /// Sets `id` to `when` unless it is set to an earlier time.
  void set_earlier(uint32_t id, TimeNs when) {
    if (when < this->when(id)) set(id, when);
  }

  /// The earliest time; kTimeNever if no timer is set.
  [[nodiscard]] TimeNs next() const { return heap_.empty() ? kTimeNever : heap_.front().when; }

  /// Removes and returns the earliest id if it is due. False: none is due.
  bool pop_due(TimeNs now, uint32_t& id) {
    if (heap_.empty() || heap_.front().when > now) return false;
    id = heap_.front().id;
    remove(0);
    return true;
  }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Node {
    TimeNs when;
    uint32_t id;
  };

  void place(uint32_t at, Node node) {
    heap_[at] = node;
    position_[node.id] = at;
  }

  void remove(uint32_t at) {
    position_[heap_[at].id] = kNowhere;
    const Node last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    place(at, last);
    sift_up(at);
    sift_down(position_[last.id]);
  }

  void sift_up(uint32_t at) {
    const Node node = heap_[at];
    while (at > 0) {
      const uint32_t parent = (at - 1) / 2;
      if (heap_[parent].when <= node.when) break;
      place(at, heap_[parent]);
      at = parent;
    }
    place(at, node);
  }

  void sift_down(uint32_t at) {
    const Node node = heap_[at];
    const auto size = static_cast<uint32_t>(heap_.size());
    for (;;) {
      uint32_t child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && heap_[child + 1].when < heap_[child].when) ++child;
      if (heap_[child].when >= node.when) break;
      place(at, heap_[child]);
      at = child;
    }
    place(at, node);
  }

  std::vector<Node> heap_;
  std::vector<uint32_t> position_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_TIMER_HEAP_H_
