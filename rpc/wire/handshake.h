// The two records that make a session. They travel in kConnect and kAccept packets, or inside another protocol's
// message (the gRPC bootstrap service). The bytes are the same in both cases.
//
//   offer    u32 magic "SKof"            u8 version min, u8 version max (with flags)
//            u16 window, u32 credits, u32 max message bytes, u32 payload bytes
//            u32 session index, u32 generation (at the offering side)
//            u64 nonce
//            u16 length + descriptor of the offering endpoint
//
//   answer   u32 magic "SKan"            u8 version chosen (with flags; 0: refused), u8 status code
//            u16 window, u32 credits, u32 max message bytes, u32 payload bytes
//            u32 session index, u32 generation (at the answering side)
//            u64 nonce of the offer
//            16 uuid, u64 incarnation, 16 cluster id of the answering endpoint
//            u16 length + text (why refused)
//
// Flags are bits of a version byte above the version. An endpoint that knows no flags takes the byte for a high
// version, and answers with its own version, without flags. So a flag in an answer is agreed by both.
//
//   trusted wire   the sender knows that the wire between the two detects damage by itself, so packets of the session
//                  need no checksums. Bundles always have them, because their sessions need not agree.
//
// Every value in an answer is at most the offer's, so a side never gets more than it asked for.
#ifndef SKUA_RPC_WIRE_HANDSHAKE_H_
#define SKUA_RPC_WIRE_HANDSHAKE_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc {

namespace version_flags {
inline constexpr uint8_t kTrustedWire = 0x80;
inline constexpr uint8_t kAll = kTrustedWire;
}  // namespace version_flags

/// The version in a version byte, without the flags.
[[nodiscard]] constexpr uint8_t version_of(uint8_t byte) {
  return static_cast<uint8_t>(byte & ~version_flags::kAll);
}
/// The newest version that both sides have, with the flags that both have.
[[nodiscard]] constexpr uint8_t common_version(uint8_t a, uint8_t b) {
  const uint8_t version = version_of(a) < version_of(b) ? version_of(a) : version_of(b);
  return static_cast<uint8_t>(version | (a & b & version_flags::kAll));
}

/// What both sides agree on for one session.
struct SessionTerms {
  uint16_t window = 0;
  uint32_t credits = 0;
  uint32_t message_max_bytes = 0;
  /// Payload bytes per packet. Both sides cut messages at multiples of this.
  uint32_t payload_bytes = 0;
  bool operator==(const SessionTerms&) const = default;
};

struct SessionOffer {
  static constexpr size_t kDescriptorMax = 1024;

  uint8_t version_min = 0;
  uint8_t version_max = 0;
  SessionTerms terms;
  uint32_t session_index = 0;
  uint32_t session_generation = 0;
  uint64_t nonce = 0;
  std::string descriptor;
  bool operator==(const SessionOffer&) const = default;

  [[nodiscard]] std::string encode() const;
  static absl::StatusOr<SessionOffer> decode(ByteSpan bytes);
};

struct SessionAnswer {
  static constexpr size_t kTextMax = 512;

  uint8_t version = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
  SessionTerms terms;
  uint32_t session_index = 0;
  uint32_t session_generation = 0;
  uint64_t nonce = 0;
  std::array<uint8_t, 16> uuid{};
  uint64_t incarnation = 0;
  std::array<uint8_t, 16> cluster_id{};
  std::string text;
  bool operator==(const SessionAnswer&) const = default;

  [[nodiscard]] std::string encode() const;
  static absl::StatusOr<SessionAnswer> decode(ByteSpan bytes);
};

/// An offer or answer of a session, and perhaps the record of a channel (rpc/transport/channels.h) that travels with
/// it. A record with a channel begins otherwise than one of a session:
///
///   u32 magic "SKch"     u16 length + record of the channel     record of the session
///
/// The magic is "SKcp" in an offer whose opener takes a session without keys as well: an acceptor that has no keys then
/// answers without a channel.
struct KeyedRecord {
  bool has_channel = false;
  bool may_be_keyless = false;
  ByteSpan channel;
  ByteSpan session;

  [[nodiscard]] static std::string write(ByteSpan channel, ByteSpan session, bool may_be_keyless = false);
  /// The parts lie in `bytes`. If the lengths do not fit, both are empty.
  [[nodiscard]] static KeyedRecord read(ByteSpan bytes);
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_HANDSHAKE_H_
