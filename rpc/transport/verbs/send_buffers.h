// SendBuffers: which buffer each slot of a send ring sends from, and which buffers the engine is writing frames into.
// Pure.
//
//    slots    0 1 2 3 ...    each has a buffer        take()              somebody writes
//    spares   s s s          no slot has them   ----------------> out  ---------------------+
//               ^  ^                             give_back()        |                       |
//               |  +------------------------------------------------+                       |
//               +---- the slot's own buffer, for it ----------------- exchange(slot) <------+
//
// A slot that sends a frame exchanges its own buffer for the frame's buffer. So a frame needs no copy and no record of
// when it was sent: its buffer is free when the slot is free. There are as many spares as frames that may be out at
// once.
#ifndef SKUA_RPC_TRANSPORT_VERBS_SEND_BUFFERS_H_
#define SKUA_RPC_TRANSPORT_VERBS_SEND_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rpc/base/check.h"

namespace skua::rpc::verbs {

/// Thread: the transport's.
class SendBuffers {
 public:
  /// Buffers are numbered from 0 to count() - 1.
  SendBuffers(uint32_t slots, uint32_t spares) : of_slot_(slots), is_out_(size_t{slots} + spares) {
    for (uint32_t slot = 0; slot < slots; ++slot) of_slot_[slot] = slot;
    for (uint32_t spare = spares; spare-- > 0;) spares_.push_back(slots + spare);
  }

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(is_out_.size()); }
  [[nodiscard]] uint32_t of_slot(size_t slot) const { return of_slot_[slot]; }
  [[nodiscard]] uint32_t out_count() const {
    return count() - static_cast<uint32_t>(of_slot_.size()) - static_cast<uint32_t>(spares_.size());
  }
  [[nodiscard]] bool is_out(uint64_t buffer) const { return buffer < is_out_.size() && is_out_[buffer] != 0; }

  /// Takes a buffer to write a frame into. nullopt: all are out.
  [[nodiscard]] std::optional<uint32_t> take() {
    if (spares_.empty()) return std::nullopt;
    const uint32_t buffer = spares_.back();
    spares_.pop_back();
    is_out_[buffer] = 1;
    return buffer;
  }
  /// Gives back a frame's buffer without sending it.
  void give_back(uint32_t buffer) {
    come_back(buffer);
    spares_.push_back(buffer);
  }
  /// The slot, which sends nothing now, takes over the frame's buffer. Its old buffer becomes a spare.
  void exchange(size_t slot, uint32_t buffer) {
    come_back(buffer);
    spares_.push_back(of_slot_[slot]);
    of_slot_[slot] = buffer;
  }

 private:
  void come_back(uint32_t buffer) {
    SKUA_CHECK(is_out(buffer), "a frame came back that is not out");
    is_out_[buffer] = 0;
  }

  std::vector<uint32_t> of_slot_;
  std::vector<uint32_t> spares_;
  std::vector<uint8_t> is_out_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_SEND_BUFFERS_H_
