#include "rpc/transport/tcp/dialect.h"

#include <array>

namespace skua::rpc::tcp {
namespace {

void pack_v1(std::byte* to, uint32_t payload_bytes) {
  store_le(to, payload_bytes);
  store_le(to + 4, uint32_t{0});
}

bool unpack_v1(const std::byte* from, uint32_t& payload_bytes) {
  payload_bytes = load_le<uint32_t>(from);
  return load_le<uint32_t>(from + 4) == 0;
}

constexpr std::array kDialects = {Dialect{1, 8, pack_v1, unpack_v1}};

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
