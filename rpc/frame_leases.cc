#include "rpc/frame_leases.h"

namespace skua::rpc {

uint32_t FrameLeases::take() {
  if (!free_.empty()) {
    const uint32_t id = free_.back();
    free_.pop_back();
    return id;
  }
  buffers_.push_back(kNoBuffer);
  lent_.push_back(0);
  counts_ = lent_.data();
  return static_cast<uint32_t>(lent_.size() - 1);
}

/// Runs when the last piece of a frame is returned, after end(): a frame that is being handled has a count of its own.
/// end() counted the frame as lent.
void FrameLeases::return_lease(uint64_t cookie) {
  memory_.count_returned();
  const auto id = static_cast<uint32_t>(cookie);
  release(buffers_[id]);
  free_.push_back(id);
}

}  // namespace skua::rpc
