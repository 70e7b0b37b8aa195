// What a stranger can send to a sealed endpoint: records of channels, and frames. Records that are accepted are encoded
// again as they were. No frame is opened but one that was sealed, and that one is opened whatever came before it.
#include <cstdlib>
#include <optional>
#include <string>

#include "rpc/base/bytes.h"
#include "rpc/transport/sealed/channel_keys.h"
#include "rpc/transport/sealed/channel_records.h"
#include "rpc/transport/sealed/sealed_frame.h"
#include "rpc/wire/handshake.h"

namespace {

using namespace skua::rpc;  // NOLINT(google-build-using-namespace)

void require(bool condition) {
  if (!condition) std::abort();
}

void check_records(skua::ByteSpan bytes) {
  if (const auto offer = ChannelOffer::decode(bytes); offer.has_value()) {
    require(skua::as_string_view(bytes) == offer->encode());
  }
  if (const auto answer = ChannelAnswer::decode(bytes); answer.has_value()) {
    require(skua::as_string_view(bytes) == answer->encode());
  }
  if (const KeyedRecord record = KeyedRecord::read(bytes); record.has_channel && !record.session.empty()) {
    require(skua::as_string_view(bytes) == KeyedRecord::write(record.channel, record.session, record.may_be_keyless));
  }
}

ChannelKeys keys(ChannelSide side, SealMode mode) {
  return {RootSecret(skua::as_byte_span(std::string(kHashBytes, 's'))), Hash{}, side, {.mode = mode}, 0};
}

std::string genuine_frame(SealMode mode) {
  ChannelKeys opener = keys(ChannelSide::kOpener, mode);
  const std::string packet(kSealedHeadBytes, 'p');
  std::string frame(kSealedHeadBytes + packet.size(), '\0');
  const skua::ByteSpan piece = skua::as_byte_span(packet);
  require(opener.sealer.seal(0, 0, std::span(&piece, 1), reinterpret_cast<std::byte*>(frame.data())) == frame.size());
  return frame;
}

SealFault open(FrameOpener& opener, std::string frame) {
  SealedHead head;
  auto* const bytes = reinterpret_cast<std::byte*>(frame.data());
  if (frame.size() < kSealedHeadBytes || !SealedHead::read(bytes, head)) return SealFault::kForged;
  std::string again(kSealedHeadBytes, '\0');
  head.write(reinterpret_cast<std::byte*>(again.data()));
  require(frame.starts_with(again.substr(0, kSealedAuthenticBytes)));
  return opener.open(head, {bytes, frame.size()});
}

void check_frames(skua::ByteSpan bytes, SealMode mode) {
  ChannelKeys acceptor = keys(ChannelSide::kAcceptor, mode);
  const std::string genuine = genuine_frame(mode);
  // Frames with a genuine part, which the input changes and lengthens.
  std::string changed = genuine;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == changed.size()) changed.push_back('\0');
    changed[i] = static_cast<char>(changed[i] ^ static_cast<char>(bytes[i]));
  }
  require(changed == genuine || open(acceptor.opener, changed) != SealFault::kNone);
  require(open(acceptor.opener, std::string(skua::as_string_view(bytes))) != SealFault::kNone);
  require(open(acceptor.opener, genuine) == SealFault::kNone);
  require(open(acceptor.opener, genuine) == SealFault::kReplay);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const skua::ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  check_records(bytes);
  check_frames(bytes, SealMode::kAuthenticate);
  check_frames(bytes, SealMode::kEncrypt);
  return 0;
}
