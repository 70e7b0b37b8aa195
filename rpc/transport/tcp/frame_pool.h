// FramePool: memory that the engine writes frames into (TxFrame). The kernel sends a frame from this memory.
//
//   | spare | prefix | frame: the engine's, up to `room` bytes      | slack |
//           ^        ^ 64-byte aligned
//           |        what take_frame() gives
//           written when the frame is sent, in the dialect of its connection: one piece with the frame
//
// All peers share the buffers. A buffer is taken only while the engine writes the frame. The buffer used last is taken
// first, because it is in the cache. Bytes that a full socket does not take are copied into the peer's queue, so a slow
// peer holds no buffer.
#ifndef SKUA_RPC_TRANSPORT_TCP_FRAME_POOL_H_
#define SKUA_RPC_TRANSPORT_TCP_FRAME_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rpc/base/bytes.h"
#include "rpc/transport/tcp/tcp_limits.h"

namespace skua::rpc::tcp {

/// Thread: the transport's.
class FramePool {
 public:
  /// Frames of `room` bytes.
  explicit FramePool(uint32_t room) : room_(room) {}

  [[nodiscard]] uint32_t room() const { return room_; }
  [[nodiscard]] bool has_one() const { return taken_count_ < kFramesTakenMax; }
  /// Takes a buffer and returns its number. Only while has_one() is true (checked).
  [[nodiscard]] uint32_t take();
  void give_back(uint32_t number);
  /// Where the frame of a taken buffer begins. The kFrameBytesMax bytes before it are for the prefix.
  [[nodiscard]] std::byte* at(uint32_t number);

  [[nodiscard]] size_t taken_count() const { return taken_count_; }

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::byte* frame = nullptr;
    bool is_taken = false;
  };

  const uint32_t room_;
  size_t taken_count_ = 0;
  /// Buffers are allocated when they are first needed.
  std::vector<Buffer> buffers_;
  std::vector<uint32_t> free_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_FRAME_POOL_H_
