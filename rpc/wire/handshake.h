// The two records that make a session. They travel in a kConnect / kAccept packet, or inside
// somebody else's message (the gRPC bootstrap service); either way they are the same bytes.
//
//   offer    u32 magic "SKof"            u8 version min, u8 version max
//            u16 window, u32 credits, u32 max message bytes, u32 payload bytes
//            u32 session index, u32 generation (at the offering side)
//            u64 nonce
//            u16 length + descriptor of the offering endpoint
//
//   answer   u32 magic "SKan"            u8 version chosen (0: refused), u8 status code
//            u16 window, u32 credits, u32 max message bytes, u32 payload bytes
//            u32 session index, u32 generation (at the answering side)
//            u64 nonce of the offer
//            16 uuid, u64 incarnation, 16 cluster id of the answering endpoint
//            u16 length + text (why refused)
//
// Every value in an answer is at most the offer's: a side never gets more than it asked for.
#ifndef SKUA_RPC_WIRE_HANDSHAKE_H_
#define SKUA_RPC_WIRE_HANDSHAKE_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc {

/// What both sides agree on for one session.
struct SessionTerms {
  uint16_t window = 0;
  uint32_t credits = 0;
  uint32_t message_max_bytes = 0;
  /// Payload bytes per packet; both sides cut messages at multiples of it.
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

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_HANDSHAKE_H_
