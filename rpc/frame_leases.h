// FrameLeases: received frames that are lent in pieces, the records of small calls.
//
//   begin(buffer) --> lend(piece), lend(piece), ... --> end(): all returned already: the frame goes back at once
//                                                              else: with the last piece
#ifndef SKUA_RPC_FRAME_LEASES_H_
#define SKUA_RPC_FRAME_LEASES_H_

#include <cstdint>
#include <vector>

#include "rpc/base/bytes.h"
#include "rpc/base/lease.h"
#include "rpc/base/thread_mark.h"
#include "rpc/receive_memory.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// A frame goes back to the transport when its last piece was returned. Thread: the endpoint's. `memory` must outlive
/// it.
class FrameLeases final : public LeaseOwner {
 public:
  explicit FrameLeases(ReceiveMemory& memory) : memory_(memory), current_(take()) { adopt_thread(); }

  /// The frame with this buffer is being handled, until end().
  void begin(RxBufferId buffer) {
    current_buffer_ = buffer;
    lent_[current_] = 1;
  }
  [[nodiscard]] LeaseParts lend(ByteSpan piece) {
    ++lent_[current_];
    return {piece, this, current_};
  }
  /// The frame was handled. It is counted as lent if pieces of it are.
  void end() {
    if (--lent_[current_] > 0) {
      buffers_[current_] = current_buffer_;
      current_ = take();
      memory_.count_lent();
    } else {
      release(current_buffer_);
    }
  }
  void return_lease(uint64_t cookie) override;
  void adopt_thread() { thread_ = this_thread_mark(); }

 private:
  [[gnu::noinline]] uint32_t take();
  void release(RxBufferId buffer) {
    if (buffer != kNoBuffer) memory_.release(buffer);
  }

  ReceiveMemory& memory_;
  // By a frame's number: its buffer, and the count of lent pieces (one more while the frame is being handled).
  std::vector<RxBufferId> buffers_;
  std::vector<uint32_t> lent_;
  std::vector<uint32_t> free_;
  // Number and buffer of the frame that is being handled, or of the next one.
  uint32_t current_;
  RxBufferId current_buffer_ = kNoBuffer;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_FRAME_LEASES_H_
