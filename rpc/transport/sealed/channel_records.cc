#include "rpc/transport/sealed/channel_records.h"

#include <string_view>

namespace skua::rpc {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kOfferBytes = 2 + 4 + sizeof(ChannelNonce);
constexpr size_t kAnswerBytes = 2 + 4 + 8 + sizeof(ChannelNonce) + 1;

bool is_mode(SealMode mode) {
  return mode == SealMode::kAuthenticate || mode == SealMode::kEncrypt;
}

std::string_view written(const ByteWriter& writer) {
  return as_string_view(writer.written());
}

}  // namespace

std::string ChannelOffer::encode() const {
  std::array<std::byte, kOfferBytes> bytes;
  ByteWriter writer(bytes);
  writer.write(kVersion);
  writer.write(mode);
  writer.write(channel);
  writer.write_bytes(nonce);
  return std::string(written(writer));
}

std::optional<ChannelOffer> ChannelOffer::decode(ByteSpan bytes) {
  ByteReader reader(bytes);
  const auto version = reader.read<uint8_t>();
  ChannelOffer out;
  out.mode = reader.read<SealMode>();
  out.channel = reader.read<uint32_t>();
  copy_bytes(out.nonce.data(), reader.read_bytes(out.nonce.size()));
  if (!reader.complete() || version != kVersion || !is_mode(out.mode)) return std::nullopt;
  return out;
}

std::string ChannelAnswer::encode() const {
  std::array<std::byte, kAnswerBytes> bytes;
  ByteWriter writer(bytes);
  writer.write(kVersion);
  writer.write(mode);
  writer.write(channel);
  writer.write(epoch);
  writer.write_bytes(nonce);
  writer.write(static_cast<uint8_t>(secret.has_value()));
  std::string out(written(writer));
  if (secret.has_value()) out += as_string_view(secret->bytes());
  return out;
}

std::optional<ChannelAnswer> ChannelAnswer::decode(ByteSpan bytes) {
  ByteReader reader(bytes);
  const auto version = reader.read<uint8_t>();
  ChannelAnswer out;
  out.mode = reader.read<SealMode>();
  out.channel = reader.read<uint32_t>();
  out.epoch = reader.read<uint64_t>();
  copy_bytes(out.nonce.data(), reader.read_bytes(out.nonce.size()));
  const auto has_secret = reader.read<uint8_t>();
  if (has_secret > 1) return std::nullopt;
  if (has_secret == 1) {
    const ByteSpan secret = reader.read_bytes(kHashBytes);
    if (!reader.ok()) return std::nullopt;
    out.secret.emplace(secret);
  }
  if (!reader.complete() || version != kVersion || !is_mode(out.mode)) return std::nullopt;
  return out;
}

Hash channel_transcript(const ChannelOffer& offer, const ChannelAnswer& answer) {
  ChannelAnswer open = answer;
  open.secret.reset();
  const std::string said = offer.encode() + open.encode();
  return sha256(as_byte_span(said));
}

}  // namespace skua::rpc
