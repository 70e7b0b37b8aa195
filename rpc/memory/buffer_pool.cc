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

size_t large_piece_bytes(size_t limit_bytes) {
  return std::max(kSmallRootBytes, std::bit_floor(std::min(BufferPool::kLargest, limit_bytes / kLargeShare)));
}

/// Of a pool that keeps a reserve.
size_t large_root_bytes(size_t piece_bytes, size_t message_bytes_max) {
  const bool needs_more = message_bytes_max > piece_bytes && message_bytes_max <= piece_bytes + kSmallRootBytes;
  return needs_more ? piece_bytes + kSmallRootBytes : piece_bytes;
}

/// Two large roots leave room for small ones.
bool has_room_for_reserve(size_t limit_bytes) {
  return limit_bytes >= 4 * kSmallRootBytes;
}

size_t small_roots_bytes_max(size_t limit_bytes, size_t large_root, bool keeps_reserve) {
  if (keeps_reserve) return limit_bytes - std::max(2 * large_root, limit_bytes / kLargeShare);
  return large_root == kSmallRootBytes ? limit_bytes : limit_bytes - limit_bytes / kLargeShare;
}

}  // namespace

BufferPool::BufferPool(Arena& arena, const Options& options)
    : arena_(arena),
      options_({.message_bytes_max = options.message_bytes_max,
                .keeps_reserve = options.keeps_reserve && has_room_for_reserve(arena.limit_bytes())}),
      large_piece_bytes_(large_piece_bytes(arena.limit_bytes())),
      large_root_bytes_(options_.keeps_reserve ? large_root_bytes(large_piece_bytes_, options.message_bytes_max)
                                               : large_piece_bytes_),
      small_roots_bytes_max_(small_roots_bytes_max(arena.limit_bytes(), large_root_bytes_, options_.keeps_reserve)),
      reserve_room_(options_.keeps_reserve ? large_root_bytes_ : 0) {}

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
  if (bytes > large_piece_bytes_ && bytes <= large_root_bytes_) return allocate_large_root();
  if (options_.keeps_reserve && bytes > large_root_bytes_) {
    return absl::ResourceExhaustedError(
        "a message buffer above what the pool can give back; raise the endpoint's limit");
  }
  const size_t size_class = class_of(bytes);
  if (free_[size_class].empty()) {
    if (absl::Status status = refill(size_class); !status.ok()) return status;
  }
  std::byte* const data = free_[size_class].back();
  free_[size_class].pop_back();
  return take(data, kSmallest << size_class);
}

Buffer BufferPool::take(std::byte* data, size_t capacity) {
  Buffer buffer;
  buffer.pool_ = this;
  buffer.data_ = data;
  buffer.capacity_ = capacity;
  ++outstanding_count_;
  outstanding_bytes_ += capacity;
  return buffer;
}

/// A message of more than a large root's one piece takes the root as a whole.
absl::StatusOr<Buffer> BufferPool::allocate_large_root() {
  const size_t size_class = class_of(large_piece_bytes_);
  std::vector<std::byte*>& pieces = free_[size_class];
  const auto find = [&] { return std::ranges::find_if(pieces, [&](std::byte* at) { return is_large_root(at); }); };
  auto found = find();
  absl::Status mapped;
  if (found == pieces.end()) {
    mapped = map_large_root();
    if (!mapped.ok() && joining_pays(large_piece_bytes_)) join(size_class);
    found = find();
  }
  if (found == pieces.end()) {
    looks_ += kLooksPerRefusal;
    return mapped;
  }
  std::byte* const data = *found;
  pieces.erase(found);
  return take(data, large_root_bytes_);
}

bool BufferPool::is_large_root(const std::byte* piece) const {
  const auto root = std::ranges::lower_bound(roots_, piece, {}, &Root::data);
  return root != roots_.end() && root->data == piece && root->bytes == large_root_bytes_;
}

absl::StatusOr<Buffer> BufferPool::allocate_reserve(size_t bytes) {
  if (!options_.keeps_reserve || is_reserve_in_use_ || bytes > large_root_bytes_) {
    return absl::ResourceExhaustedError("the reserve of message memory is in use, or too small");
  }
  if (reserve_ == nullptr) {
    absl::StatusOr<MutableByteSpan> mapping = arena_.map(large_root_bytes_);
    if (!mapping.ok()) return mapping.status();
    reserve_ = mapping->data();
    reserve_room_ = 0;
  }
  is_reserve_in_use_ = true;
  return take(reserve_, large_root_bytes_);
}

size_t BufferPool::message_bytes_max() const {
  return options_.keeps_reserve ? std::min(options_.message_bytes_max, large_root_bytes_) : kLargest;
}

size_t BufferPool::message_bytes_max(size_t limit_bytes, size_t message_bytes_max) {
  if (!has_room_for_reserve(limit_bytes)) return message_bytes_max;
  return std::min(message_bytes_max, large_root_bytes(large_piece_bytes(limit_bytes), message_bytes_max));
}

/// If this succeeds, the class has a free piece.
absl::Status BufferPool::refill(size_t size_class) {
  const size_t piece = kSmallest << size_class;
  const size_t small_root = std::max(piece, kSmallRootBytes);
  if (small_root == kSmallRootBytes && small_roots_bytes_ + small_root <= small_roots_bytes_max_ &&
      map_root(small_root, small_root).ok()) {
    small_roots_bytes_ += small_root;
    cut_small_root(size_class);
    return absl::OkStatus();
  }
  if (split(size_class)) return absl::OkStatus();
  absl::Status mapped = piece <= large_piece_bytes_ ? map_large_root() : map_root(piece, piece);
  if (!mapped.ok() && small_root < large_piece_bytes_) mapped = map_root(small_root, small_root);
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

/// The root has one free piece then.
absl::Status BufferPool::map_root(size_t bytes, size_t piece) {
  if (reserve_room_ > 0 && !arena_.has_room(bytes + reserve_room_)) {
    return absl::ResourceExhaustedError("message memory is used up, but for a reserve; raise the endpoint's limit");
  }
  absl::StatusOr<MutableByteSpan> mapping = arena_.map(bytes);
  if (!mapping.ok()) return mapping.status();
  const Root root{mapping->data(), mapping->size()};
  roots_.insert(std::ranges::upper_bound(roots_, root.data, {}, &Root::data), root);
  free_[class_of(piece)].push_back(root.data);
  return absl::OkStatus();
}

absl::Status BufferPool::map_large_root() {
  return map_root(large_root_bytes_, large_piece_bytes_);
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
  --outstanding_count_;
  outstanding_bytes_ -= capacity;
  if (data == reserve_) {
    is_reserve_in_use_ = false;
    return;
  }
  const bool is_root = capacity == large_root_bytes_;
  free_[class_of(is_root ? large_piece_bytes_ : capacity)].push_back(data);
  note_pieces(1);
}

}  // namespace skua::rpc
