// Dialect: what one protocol version puts before each packet, as a table of functions.
//
// Connections know frames only through this table, so a later version is one more row: the hello
// picks the highest version that both sides speak, and either side then packs and unpacks with that
// row. A row is never changed once released.
//
//   version 1   0        4            8                   40
//               +--------+------------+-------------------+---------------------+
//               | u32    | u32 flags  | 32-byte packet    | payload             |
//               | payload| (zero)     | header            | (payload bytes)     |
//               | bytes  |            |                   |                     |
//               +--------+------------+-------------------+---------------------+
//               little endian; a flag that is not known makes the frame malformed
//
// Bundles. A packet whose first byte says so is one that the engine wrote as a whole (TxFrame): its first 32 bytes are
// the packet header, the rest is its payload. It is small, says its own length in bytes 4..7, and is lent in one piece
// with its header. Packet headers are opaque else.
#ifndef SKUA_RPC_TRANSPORT_TCP_DIALECT_H_
#define SKUA_RPC_TRANSPORT_TCP_DIALECT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "rpc/base/bytes.h"

namespace skua::rpc::tcp {

struct Dialect {
  uint16_t version = 0;
  /// Bytes before the packet header; at most kFrameBytesMax.
  uint8_t frame_bytes = 0;
  /// Writes frame_bytes bytes.
  void (*pack)(std::byte* to, uint32_t payload_bytes) = nullptr;
  /// Reads frame_bytes bytes; false: malformed.
  bool (*unpack)(const std::byte* from, uint32_t& payload_bytes) = nullptr;
};

/// Does a packet header begin a bundle? (is_bundle() in rpc/wire)
[[nodiscard]] inline bool is_bundle_header(const std::byte* header) {
  return static_cast<uint8_t>(*header) >> 4 == 2;
}
/// The bytes of the bundle, as it says itself (stream_bundle_bytes() in rpc/wire).
[[nodiscard]] inline uint32_t bundle_bytes(const std::byte* header) {
  return load_le<uint32_t>(header + 4);
}

/// The versions this build speaks, ascending.
[[nodiscard]] std::span<const Dialect> builtin_dialects();

/// The row of `version`, or nullptr.
[[nodiscard]] const Dialect* find_dialect(std::span<const Dialect> dialects, uint16_t version);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_DIALECT_H_
