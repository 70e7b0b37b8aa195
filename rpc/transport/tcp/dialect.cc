#include "rpc/transport/tcp/dialect.h"

#include <array>

namespace skua::rpc::tcp {
namespace {

void pack_v1(std::byte* to, const FramePrefix& prefix) {
  store_le(to, uint64_t{prefix.payload_bytes});
}

bool unpack_v1(const std::byte* from, FramePrefix& prefix) {
  prefix = {.payload_bytes = load_le<uint32_t>(from)};
  return load_le<uint32_t>(from + 4) == 0;
}

constexpr uint32_t kAsks = 1;
constexpr uint32_t kIsAlone = 2;

void pack_v2(std::byte* to, const FramePrefix& prefix) {
  const uint32_t flags = (prefix.asks ? kAsks : 0) | (prefix.is_alone ? kIsAlone : 0);
  store_le(to, uint64_t{prefix.payload_bytes} | uint64_t{flags | prefix.has << 8} << 32);
}

bool unpack_v2(const std::byte* from, FramePrefix& prefix) {
  const auto rest = load_le<uint32_t>(from + 4);
  const uint32_t flags = rest & 0xff;
  prefix = {.payload_bytes = load_le<uint32_t>(from),
            .has = rest >> 8,
            .asks = (flags & kAsks) != 0,
            .is_alone = (flags & kIsAlone) != 0};
  if (prefix.is_alone && (prefix.asks || prefix.payload_bytes != 0)) return false;
  return (flags & ~(kAsks | kIsAlone)) == 0;
}

constexpr std::array kDialects = {
    Dialect{.version = 1, .frame_bytes = 8, .has_notices = false, .pack = pack_v1, .unpack = unpack_v1},
    Dialect{.version = 2, .frame_bytes = 8, .has_notices = true, .pack = pack_v2, .unpack = unpack_v2},
};

}  // namespace

std::span<const Dialect> builtin_dialects() {
  return kDialects;
}

const Dialect* find_dialect(std::span<const Dialect> dialects, uint16_t version) {
  for (const Dialect& dialect : dialects) {
    if (dialect.version == version) return &dialect;
  }
  return nullptr;
}

}  // namespace skua::rpc::tcp
