#include "rpc/memory/buffer_pool.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

// Small classes are cut from one mapping of this size, so that a pool does not map 2 MiB per class
// and buffer.
constexpr size_t kRefillBytes = size_t{2} << 20;

}  // namespace

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    pool_ = std::exchange(other.pool_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
  }
  return *this;
}

void Buffer::reset() {
  if (data_ != nullptr) pool_->free(std::exchange(data_, nullptr), capacity_);
}

BufferPool::~BufferPool() {
  SKUA_CHECK(outstanding_count_ == 0, "a message buffer outlives its pool");
}

size_t BufferPool::class_of(size_t bytes) {
  const size_t rounded = std::bit_ceil(std::max(bytes, kSmallest));
  return static_cast<size_t>(std::countr_zero(rounded) - std::countr_zero(kSmallest));
}

absl::StatusOr<Buffer> BufferPool::allocate(size_t bytes) {
  if (bytes > kLargest) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message buffer of ", bytes, " bytes was asked for; the limit is ", kLargest));
  }
  const size_t size_class = class_of(bytes);
  if (free_[size_class].empty()) {
    if (absl::Status status = refill(size_class); !status.ok()) return status;
  }
  Buffer buffer;
  buffer.pool_ = this;
  buffer.data_ = free_[size_class].back();
  buffer.capacity_ = kSmallest << size_class;
  free_[size_class].pop_back();
  ++outstanding_count_;
  outstanding_bytes_ += buffer.capacity_;
  return buffer;
}

absl::Status BufferPool::refill(size_t size_class) {
  const size_t piece = kSmallest << size_class;
  absl::StatusOr<MutableByteSpan> mapping = arena_.map(std::max(piece, kRefillBytes));
  if (!mapping.ok()) return mapping.status();
  const size_t pieces = mapping->size() / piece;
  free_[size_class].reserve(free_[size_class].size() + pieces);
  for (size_t i = pieces; i > 0; --i) free_[size_class].push_back(mapping->data() + (i - 1) * piece);
  return absl::OkStatus();
}

void BufferPool::free(std::byte* data, size_t capacity) {
  free_[class_of(capacity)].push_back(data);
  --outstanding_count_;
  outstanding_bytes_ -= capacity;
}

}  // namespace skua::rpc
