#include "rpc/transport/tcp/frame_pool.h"

#include "rpc/base/check.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::tcp {
namespace {

constexpr size_t kAlignment = 64;
static_assert(kFrameBytesMax <= kAlignment);

}  // namespace

uint32_t FramePool::take() {
  SKUA_CHECK(has_one(), "more frames are taken than there are");
  ++taken_count_;
  if (free_.empty()) {
    const size_t bytes = 2 * kAlignment + room_ + kFrameSlack;
    Buffer made{.memory = std::unique_ptr<std::byte[]>(new std::byte[bytes])};
    const auto start = reinterpret_cast<uintptr_t>(made.memory.get());
    made.frame = made.memory.get() + ((start + 2 * kAlignment - 1) / kAlignment * kAlignment - start);
    free_.push_back(static_cast<uint32_t>(buffers_.size()));
    buffers_.push_back(std::move(made));
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  buffers_[number].is_taken = true;
  return number;
}

void FramePool::give_back(uint32_t number) {
  SKUA_CHECK(number < buffers_.size() && buffers_[number].is_taken, "a frame was sent twice or was never taken");
  buffers_[number].is_taken = false;
  --taken_count_;
  free_.push_back(number);
}

std::byte* FramePool::at(uint32_t number) {
  SKUA_CHECK(number < buffers_.size() && buffers_[number].is_taken, "a frame was sent twice or was never taken");
  return buffers_[number].frame;
}

}  // namespace skua::rpc::tcp
