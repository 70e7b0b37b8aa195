// FramePool: memory of coroutines, kept from one command to the next, so that commands allocate nothing once the pool
// is warm.
#ifndef SKUA_KVSTORE_GATEWAY_FRAME_POOL_H_
#define SKUA_KVSTORE_GATEWAY_FRAME_POOL_H_

#include <array>
#include <cstddef>
#include <new>
#include <vector>

namespace skua::kv::gateway {

/// Thread: one. All memory must be given back before the pool is destroyed.
class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() {
    for (const std::vector<void*>& frames : spare_) {
      for (void* frame : frames) ::operator delete(frame);
    }
  }

  [[nodiscard]] void* take(size_t bytes) {
    const size_t size_class = class_of(bytes);
    if (size_class >= kClasses) return ::operator new(bytes);
    std::vector<void*>& frames = spare_[size_class];
    if (frames.empty()) return ::operator new((size_class + 1) * kClassBytes);
    void* frame = frames.back();
    frames.pop_back();
    return frame;
  }
  /// `bytes`: as given to take().
  void give(void* frame, size_t bytes) {
    const size_t size_class = class_of(bytes);
    if (size_class >= kClasses || spare_[size_class].size() >= kSpareMax) return ::operator delete(frame);
    spare_[size_class].push_back(frame);
  }

 private:
  static constexpr size_t kClassBytes = 256;
  static constexpr size_t kClasses = 16;
  static constexpr size_t kSpareMax = 1024;
  static size_t class_of(size_t bytes) { return (bytes - 1) / kClassBytes; }

  std::array<std::vector<void*>, kClasses> spare_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_FRAME_POOL_H_
