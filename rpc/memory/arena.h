// Arena: large page-aligned mappings. Message buffers are cut from them, and transports register each mapping once.
//
// Each mapping tries, in this order: 2 MiB huge pages (if any are reserved), transparent huge pages, plain 4 KiB pages.
// No privilege is needed. page_kind() says what was obtained.
#ifndef SKUA_RPC_MEMORY_ARENA_H_
#define SKUA_RPC_MEMORY_ARENA_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc {

enum class PageKind { kHuge, kTransparentHuge, kPlain };

/// Thread: one at a time. The mappings live as long as the arena.
class Arena {
 public:
  /// Called once for every new mapping, before the mapping is used (register_region() of the transports). map() returns
  /// its error.
  using OnMap = std::function<absl::Status(MutableByteSpan)>;
  using OnUnmap = std::function<void(MutableByteSpan)>;

  struct Options {
    /// Total bytes the arena may map.
    size_t limit_bytes = size_t{1} << 30;
    bool try_huge_pages = true;
    OnMap on_map = nullptr;
    OnUnmap on_unmap = nullptr;
  };

  explicit Arena(Options options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A new zeroed mapping of at least `bytes`, rounded up to 2 MiB. RESOURCE_EXHAUSTED names the limit that was hit.
  absl::StatusOr<MutableByteSpan> map(size_t bytes);

  [[nodiscard]] size_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] size_t limit_bytes() const { return options_.limit_bytes; }
  /// True if the arena's limit allows map(bytes). The operating system may still refuse.
  [[nodiscard]] bool has_room(size_t bytes) const;
  /// The kind of pages of the latest mapping.
  [[nodiscard]] PageKind page_kind() const { return page_kind_; }

 private:
  Options options_;
  std::vector<MutableByteSpan> mappings_;
  size_t mapped_bytes_ = 0;
  PageKind page_kind_ = PageKind::kPlain;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MEMORY_ARENA_H_
