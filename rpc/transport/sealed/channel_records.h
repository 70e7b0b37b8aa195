// The two records by which a channel gets its keys. They travel beside a session's offer and answer.
//
//   offer    u8 version 1, u8 mode (the least), u32 channel (the opener's index), 16 bytes nonce
//   answer   u8 version 1, u8 mode, u32 channel (the acceptor's index), u64 epoch, 16 bytes nonce of the offer,
//            u8 has secret, 32 bytes secret
//
// An opener sends the same offer for all sessions of a channel: the nonce names the channel. The acceptor answers each
// with the same answer. Once the opener has used the channel, the acceptor has forgotten the secret, and answers
// without. The epoch tells whether an answer is of the channel that the opener knows.
#ifndef SKUA_RPC_TRANSPORT_SEALED_CHANNEL_RECORDS_H_
#define SKUA_RPC_TRANSPORT_SEALED_CHANNEL_RECORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rpc/base/bytes.h"
#include "rpc/crypto/key_derivation.h"
#include "rpc/transport/sealed/sealed_frame.h"

namespace skua::rpc {

using ChannelNonce = std::array<std::byte, 16>;

struct ChannelOffer {
  SealMode mode = SealMode::kEncrypt;
  uint32_t channel = 0;
  ChannelNonce nonce{};
  bool operator==(const ChannelOffer&) const = default;

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static std::optional<ChannelOffer> decode(ByteSpan bytes);
};

struct ChannelAnswer {
  SealMode mode = SealMode::kEncrypt;
  uint32_t channel = 0;
  uint64_t epoch = 0;
  ChannelNonce nonce{};
  std::optional<RootSecret> secret;

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static std::optional<ChannelAnswer> decode(ByteSpan bytes);
};

/// The hash of what both ends said, without the secret.
[[nodiscard]] Hash channel_transcript(const ChannelOffer& offer, const ChannelAnswer& answer);

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_CHANNEL_RECORDS_H_
