// BufferPool: message-sized pieces of an arena in power-of-two classes, 256 B to 32 MiB.
//
//   class      0      1      2   ...    17
//   bytes    256    512   1024   ...  32 Mi
//
// A freed piece goes to the free list of its class and stays there, because a message engine asks for the same sizes
// again and again. The steady state allocates nothing.
//
// When the arena is used up, pieces of other classes are reused. Otherwise a peer that once made this endpoint use many
// sizes would have taken the memory from all others. First, a larger free piece is halved until it fits. If there is
// none, free neighbours are joined (buddies, Knuth, TAOCP 1, 2.5). A quarter of the arena is mapped in large roots
// only, so that joining brings back room for the largest messages:
//
//    roots      |  2 MiB  |  2 MiB  | ...  up to 3/4  |            32 MiB            | ...
//    pieces     |4k|4k|4k|| 1 MiB |1|                 |      16 MiB     |8 MiB |4 |4 |
//
// A pool may keep a reserve (Options). It is one large root that is never cut: messages on which others wait always
// find memory, one after the other. Then there is room for one more large root at least. A large root may have 2 MiB
// more than its one piece, so that the largest message, which is a little more than a power of two, does not need twice
// as much:
//
//    roots      |  2 MiB  | ...  what the two others leave  | 16 MiB + 2 MiB, cut as above | reserve: 16 MiB + 2 MiB |
//
#ifndef SKUA_RPC_MEMORY_BUFFER_POOL_H_
#define SKUA_RPC_MEMORY_BUFFER_POOL_H_

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/memory/arena.h"

namespace skua::rpc {

class BufferPool;

/// Owned, registered bytes. The destructor returns them to the pool. Move-only. Must not outlive the pool (the pool
/// checks).
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { reset(); }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t capacity() const { return capacity_; }
  explicit operator bool() const { return data_ != nullptr; }
  void reset();

 private:
  friend class BufferPool;
  BufferPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
};

/// Thread: the owner's. Buffers are freed on the same thread.
class BufferPool {
 public:
  static constexpr size_t kSmallest = 256;
  static constexpr size_t kLargest = size_t{32} << 20;

  struct Options {
    size_t message_bytes_max = kLargest;
    bool keeps_reserve = false;
  };

  /// `arena` must outlive the pool.
  explicit BufferPool(Arena& arena) : BufferPool(arena, Options()) {}
  BufferPool(Arena& arena, const Options& options);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// A buffer of at least `bytes`, with unspecified contents. INVALID_ARGUMENT: more than kLargest. RESOURCE_EXHAUSTED:
  /// the arena is used up and no free piece is large enough.
  absl::StatusOr<Buffer> allocate(size_t bytes);
  /// As allocate(), but takes the reserve. RESOURCE_EXHAUSTED: there is none, it is in use, or it is too small.
  absl::StatusOr<Buffer> allocate_reserve(size_t bytes);

  /// The largest message for which there is a piece as soon as others are freed. A pool without a reserve does not
  /// tell: kLargest.
  [[nodiscard]] size_t message_bytes_max() const;
  /// The same of a pool that keeps a reserve, over an arena of this limit.
  [[nodiscard]] static size_t message_bytes_max(size_t limit_bytes, size_t message_bytes_max);

  /// Buffers handed out and not yet returned.
  [[nodiscard]] size_t outstanding_count() const { return outstanding_count_; }
  [[nodiscard]] size_t outstanding_bytes() const { return outstanding_bytes_; }

 private:
  friend class Buffer;
  static constexpr size_t kClassCount = 18;
  struct Root {
    std::byte* data = nullptr;
    size_t bytes = 0;  // a power of two, or large_root_bytes_
  };

  static size_t class_of(size_t bytes);
  absl::Status refill(size_t size_class);
  absl::Status map_root(size_t bytes, size_t piece);
  absl::Status map_large_root();
  absl::StatusOr<Buffer> allocate_large_root();
  [[nodiscard]] bool is_large_root(const std::byte* piece) const;
  Buffer take(std::byte* data, size_t capacity);
  bool split(size_t size_class);
  void note_pieces(size_t count);
  [[nodiscard]] bool joining_pays(size_t bytes) const;
  void join(size_t wanted);
  void cut_small_root(size_t size_class);
  void free(std::byte* data, size_t capacity);

  Arena& arena_;
  const Options options_;
  const size_t large_piece_bytes_;  // a power of two
  const size_t large_root_bytes_;   // the same, or 2 MiB more
  const size_t small_roots_bytes_max_;
  size_t small_roots_bytes_ = 0;
  std::vector<Root> roots_;       // sorted by address; without the reserve
  std::byte* reserve_ = nullptr;  // null: not mapped yet, and reserve_room_ is kept for it
  size_t reserve_room_ = 0;
  bool is_reserve_in_use_ = false;
  bool joinable_ = false;  // pieces were freed or split since the last join()
  size_t looks_ = 0;       // how many free pieces the next join() may look at
  std::array<std::vector<std::byte*>, kClassCount> free_;
  size_t outstanding_count_ = 0;
  size_t outstanding_bytes_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MEMORY_BUFFER_POOL_H_
