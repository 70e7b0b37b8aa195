// Memory for a segment's contents. It uses huge pages where the system has them, because recovery reads keys and values
// in sorted order, all over the segment, and that is slow with small pages. The memory is not initialized.
#ifndef SKUA_KVSTORE_LOG_SEGMENT_BYTES_H_
#define SKUA_KVSTORE_LOG_SEGMENT_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "rpc/base/bytes.h"

namespace skua::kv {

/// Memory that std::aligned_alloc() made.
struct FreeBytes {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeBytes>;

class SegmentBytes {
 public:
  /// Makes room for `size` bytes of any value. The former contents are lost.
  void resize_for_overwrite(size_t size);
  void shrink(size_t size) { size_ = std::min(size, size_); }
  [[nodiscard]] MutableByteSpan span() { return {memory_.get(), size_}; }
  [[nodiscard]] ByteSpan bytes() const { return {memory_.get(), size_}; }

 private:
  AlignedBytes memory_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_SEGMENT_BYTES_H_
