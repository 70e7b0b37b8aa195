// Dialect: the frame prefix that one protocol version puts before each packet, as a table of functions.
//
// Connections know frames only through this table, so a later version is one more row. The hello chooses the highest
// version that both sides speak; both sides then pack and unpack with that row. A released row never changes.
//
//   version 1   0        4            8                   40
//               +--------+------------+-------------------+---------------------+
//               | u32    | u32 flags  | 32-byte packet    | payload             |
//               | payload| (zero)     | header            | (payload bytes)     |
//               | bytes  |            |                   |                     |
//               +--------+------------+-------------------+---------------------+
//   version 2   0        4     5      8                   40
//               +--------+-----+------+-------------------+---------------------+
//               | u32    | u8  | u24  | 32-byte packet    | payload             |
//               | payload|flags| has  | header            | (payload bytes)     |
//               | bytes  |     |      |                   |                     |
//               +--------+-----+------+-------------------+---------------------+
//               flags   1: the sender asks to be told when the receiver's engine has this packet (zero_copy.h)
//                       2: nothing follows, not even a header: the frame carries `has` only
//               has     how many asking packets the sender's engine has got on this connection, modulo 2^24
//               little endian; an unknown flag makes the frame malformed
//
// Bundles. A packet whose first byte marks it as a bundle was written by the engine as a whole (TxFrame): its first 32
// bytes are the packet header, the rest is its payload. A bundle is small, carries its own length in bytes 4..7, and is
// lent in one piece with its header. The transport looks at no other part of a packet header.
#ifndef SKUA_RPC_TRANSPORT_TCP_DIALECT_H_
#define SKUA_RPC_TRANSPORT_TCP_DIALECT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "rpc/base/bytes.h"

namespace skua::rpc::tcp {

/// The content of a frame prefix.
struct FramePrefix {
  uint32_t payload_bytes = 0;
  /// Modulo 2^24, which is kNoticeMask + 1.
  uint32_t has = 0;
  bool asks = false;
  bool is_alone = false;
  bool operator==(const FramePrefix&) const = default;
};
inline constexpr uint32_t kNoticeMask = (uint32_t{1} << 24) - 1;

struct Dialect {
  uint16_t version = 0;
  /// Bytes before the packet header; at most kFrameBytesMax.
  uint8_t frame_bytes = 0;
  /// Frames can carry more than payload_bytes. If false, pack() ignores the other fields.
  bool has_notices = false;
  /// Writes frame_bytes bytes.
  void (*pack)(std::byte* to, const FramePrefix& prefix) = nullptr;
  /// Reads frame_bytes bytes; false: malformed.
  bool (*unpack)(const std::byte* from, FramePrefix& prefix) = nullptr;
};

/// True if this packet header begins a bundle (is_bundle() in rpc/wire), or a sealed frame (rpc/transport/sealed):
/// their heads carry the length in the same place.
[[nodiscard]] inline bool is_bundle_header(const std::byte* header) {
  const int version = static_cast<uint8_t>(*header) >> 4;
  return version == 2 || version == 3;
}
/// The length that the bundle carries (stream_bundle_bytes() in rpc/wire).
[[nodiscard]] inline uint32_t bundle_bytes(const std::byte* header) {
  return load_le<uint32_t>(header + 4);
}

/// The versions this build speaks, ascending.
[[nodiscard]] std::span<const Dialect> builtin_dialects();

/// The row of `version`, or nullptr.
[[nodiscard]] const Dialect* find_dialect(std::span<const Dialect> dialects, uint16_t version);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_DIALECT_H_
