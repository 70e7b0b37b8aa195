#include "rpc/memory/buffer_pool.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

// Pieces of up to this size are cut from a mapping of this size, so that the pool does not map 2 MiB for each of them.
constexpr size_t kSmallRootBytes = size_t{2} << 20;
/// One in so many bytes of the arena is for large roots only.
constexpr size_t kLargeShare = 4;
/// join() looks at all free pieces. It may run once enough looks are saved: this many for each piece freed or made
/// since,
constexpr size_t kLooksPerPiece = 64;
/// and this many for each refused allocation. The second rule matters if many pieces are kept for long, so that few are
/// freed: a request for a large piece must not wait for others to free pieces.
constexpr size_t kLooksPerRefusal = 4096;

size_t large_root_bytes(size_t limit_bytes) {
  return std::max(kSmallRootBytes, std::bit_floor(std::min(BufferPool::kLargest, limit_bytes / kLargeShare)));
}

}  // namespace

BufferPool::BufferPool(Arena& arena)
    : arena_(arena),
      large_root_bytes_(large_root_bytes(arena.limit_bytes())),
      small_roots_bytes_max_(large_root_bytes_ == kSmallRootBytes
                                 ? arena.limit_bytes()
                                 : arena.limit_bytes() - arena.limit_bytes() / kLargeShare) {}

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

/// If this succeeds, the class has a free piece.
absl::Status BufferPool::refill(size_t size_class) {
  const size_t piece = kSmallest << size_class;
  const size_t small_root = std::max(piece, kSmallRootBytes);
  if (small_root == kSmallRootBytes && small_roots_bytes_ + small_root <= small_roots_bytes_max_ &&
      map_root(small_root).ok()) {
    small_roots_bytes_ += small_root;
    cut_small_root(size_class);
    return absl::OkStatus();
  }
  if (split(size_class)) return absl::OkStatus();
  absl::Status mapped = map_root(std::max(piece, large_root_bytes_));
  if (!mapped.ok() && small_root < large_root_bytes_) mapped = map_root(small_root);
  if (!mapped.ok() && joining_pays(piece)) join(size_class);
  if (!free_[size_class].empty() || split(size_class)) return absl::OkStatus();
  looks_ += kLooksPerRefusal;
  return mapped;
}

/// Cuts the root that was mapped last into pieces of one class.
void BufferPool::cut_small_root(size_t size_class) {
  const size_t piece = kSmallest << size_class;
  std::vector<std::byte*>& roots = free_[class_of(kSmallRootBytes)];
  std::byte* const root = roots.back();
  roots.pop_back();
  std::vector<std::byte*>& free = free_[size_class];
  free.reserve(free.size() + kSmallRootBytes / piece);
  for (size_t at = kSmallRootBytes; at > 0; at -= piece) free.push_back(root + at - piece);
  note_pieces(kSmallRootBytes / piece);
}

absl::Status BufferPool::map_root(size_t bytes) {
  absl::StatusOr<MutableByteSpan> mapping = arena_.map(bytes);
  if (!mapping.ok()) return mapping.status();
  const Root root{mapping->data(), mapping->size()};
  roots_.insert(std::ranges::upper_bound(roots_, root.data, {}, &Root::data), root);
  free_[class_of(root.bytes)].push_back(root.data);
  return absl::OkStatus();
}

/// Halves the smallest free piece that is larger than the class, until it fits. False: there is none.
bool BufferPool::split(size_t size_class) {
  size_t larger = size_class + 1;
  while (larger < kClassCount && free_[larger].empty()) ++larger;
  if (larger >= kClassCount) return false;
  std::byte* const data = free_[larger].back();
  free_[larger].pop_back();
  note_pieces(larger - size_class);
  for (; larger > size_class; --larger) free_[larger - 1].push_back(data + (kSmallest << (larger - 1)));
  free_[size_class].push_back(data);
  return true;
}

/// `count` more pieces were freed or made by splitting since the last join().
void BufferPool::note_pieces(size_t count) {
  joinable_ = true;
  looks_ += count * kLooksPerPiece;
}

bool BufferPool::joining_pays(size_t bytes) const {
  size_t pieces = 0;
  for (const std::vector<std::byte*>& free : free_) pieces += free.size();
  return joinable_ && looks_ >= pieces && arena_.mapped_bytes() - outstanding_bytes_ >= bytes;
}

/// Joins free neighbours of one size that are the halves of one piece, from the smallest class up to `wanted`.
void BufferPool::join(size_t wanted) {
  joinable_ = false;
  looks_ = 0;
  for (size_t size_class = 0; size_class < wanted; ++size_class) {
    const size_t piece = kSmallest << size_class;
    std::vector<std::byte*>& free = free_[size_class];
    std::ranges::sort(free);
    auto root = roots_.begin();
    size_t kept = 0;
    for (size_t i = 0; i < free.size(); ++i) {
      while (free[i] >= root->data + root->bytes) ++root;
      const auto offset = static_cast<size_t>(free[i] - root->data);
      const bool is_first_half = offset % (2 * piece) == 0 && offset + 2 * piece <= root->bytes;
      if (is_first_half && i + 1 < free.size() && free[i + 1] == free[i] + piece) {
        free_[size_class + 1].push_back(free[i++]);
      } else {
        free[kept++] = free[i];
      }
    }
    free.resize(kept);
  }
}

void BufferPool::free(std::byte* data, size_t capacity) {
  free_[class_of(capacity)].push_back(data);
  note_pieces(1);
  --outstanding_count_;
  outstanding_bytes_ -= capacity;
}

}  // namespace skua::rpc
