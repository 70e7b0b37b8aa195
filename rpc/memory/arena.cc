#include "rpc/memory/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::rpc {
namespace {

constexpr size_t kMappingGranule = size_t{2} << 20;

size_t round_to_granules(size_t bytes) {
  return (bytes + kMappingGranule - 1) / kMappingGranule * kMappingGranule;
}

void* map_pages(size_t bytes, int extra_flags) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
}

}  // namespace

Arena::Arena(Options options) : options_(std::move(options)) {}

Arena::~Arena() {
  for (MutableByteSpan mapping : mappings_) {
    if (options_.on_unmap) options_.on_unmap(mapping);
    munmap(mapping.data(), mapping.size());
  }
}

bool Arena::has_room(size_t bytes) const {
  return round_to_granules(bytes) <= options_.limit_bytes - mapped_bytes_;
}

absl::StatusOr<MutableByteSpan> Arena::map(size_t bytes) {
  const size_t rounded = round_to_granules(bytes);
  if (!has_room(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("message memory is used up: ", mapped_bytes_, " of ",
                                                     options_.limit_bytes, " bytes mapped, ", rounded,
                                                     " more wanted; raise the endpoint's memory limit"));
  }
  void* base = MAP_FAILED;
  if (options_.try_huge_pages) base = map_pages(rounded, MAP_HUGETLB);
  if (base != MAP_FAILED) {
    page_kind_ = PageKind::kHuge;
  } else {
    base = map_pages(rounded, 0);
    if (base == MAP_FAILED) {
      const int error = errno;
      return absl::ResourceExhaustedError(absl::StrCat("cannot map ", rounded, " bytes of message memory: ",
                                                       std::strerror(error)));  // NOLINT(concurrency-mt-unsafe)
    }
    page_kind_ = madvise(base, rounded, MADV_HUGEPAGE) == 0 ? PageKind::kTransparentHuge : PageKind::kPlain;
  }
  MutableByteSpan mapping(static_cast<std::byte*>(base), rounded);
  if (options_.on_map) {
    if (absl::Status status = options_.on_map(mapping); !status.ok()) {
      munmap(base, rounded);
      return status;
    }
  }
  mappings_.push_back(mapping);
  mapped_bytes_ += rounded;
  return mapping;
}

}  // namespace skua::rpc
