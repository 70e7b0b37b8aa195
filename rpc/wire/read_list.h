// ReadList: tells the receiver of a large message how to read the message itself. It is sent instead of the message's
// bytes, as the payload of a kRequest or kResponse packet with packet_flags::kByRead. The packet's header has the size
// of the whole message.
//
//   u16 head bytes   u8 spans (1..4)   u8 0   u64 connection   the head
//   then per span: u64 address, u32 key, u32 bytes
//
// The message is the head and then the spans, in order. The spans may be read only over this connection
// (OneSided::connection()). Once it has ended, nobody may read them, even if another connection stands.
#ifndef SKUA_RPC_WIRE_READ_LIST_H_
#define SKUA_RPC_WIRE_READ_LIST_H_

#include <array>
#include <cstdint>
#include <span>

#include "rpc/base/bytes.h"

namespace skua::rpc {

/// Bytes at a peer, by the address and key that its transport gave them (rpc/transport/one_sided.h).
struct RemoteSpan {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t bytes = 0;
  bool operator==(const RemoteSpan&) const = default;
};

struct ReadList {
  static constexpr size_t kSpansMax = 4;
  static constexpr size_t kSpanBytes = 16;
  static constexpr size_t kFixedBytes = 12;

  uint64_t connection = 0;
  ByteSpan head{};
  uint32_t span_count = 0;
  std::array<RemoteSpan, kSpansMax> spans{};

  [[nodiscard]] size_t encoded_bytes() const { return kFixedBytes + head.size() + span_count * kSpanBytes; }
  /// Size of the message.
  [[nodiscard]] uint64_t message_bytes() const {
    uint64_t bytes = head.size();
    for (uint32_t i = 0; i < span_count; ++i) bytes += spans[i].bytes;
    return bytes;
  }
  /// Writes encoded_bytes() bytes to `to`, which must have room. Returns how many.
  size_t encode(MutableByteSpan to) const;
  /// False: `from` is malformed. `out` refers to `from`.
  [[nodiscard]] static bool decode(ByteSpan from, ReadList& out);
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_READ_LIST_H_
