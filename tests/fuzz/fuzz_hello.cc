// The TCP handshake's decoders over arbitrary bytes: they never read outside, what they accept is
// within bounds, and an accepted record encodes to one that decodes to the same.
#include <cstdlib>

#include "rpc/transport/tcp/address.h"
#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/tcp/hello.h"
#include "rpc/transport/tcp/tcp_limits.h"

namespace {

using namespace skua::rpc::tcp;  // NOLINT(google-build-using-namespace)

void require(bool condition) {
  if (!condition) std::abort();
}

void check_hello(skua::ByteSpan bytes) {
  const absl::StatusOr<Hello> hello = decode_hello(bytes);
  if (!hello.ok()) return;
  require(bytes.size() <= kHelloBytesMax);
  require(*decode_hello(skua::as_byte_span(encode_hello(*hello))) == *hello);
  skua::rpc::EndpointIdentity self;
  self.uuid.bytes.fill(1);
  const HelloReply reply = judge_hello(*hello, self, {1, 3});
  require((reply.code == HelloCode::kAccepted) == (reply.chosen != 0));
  require(decode_reply(skua::as_byte_span(encode_reply(reply))).ok());
  const auto address = SocketAddress::decode(skua::as_byte_span(hello->sender_address));
  if (address.ok()) require(address->encode() == hello->sender_address);
}

void check_reply(skua::ByteSpan bytes) {
  const absl::StatusOr<HelloReply> reply = decode_reply(bytes);
  if (!reply.ok()) return;
  require(*decode_reply(skua::as_byte_span(encode_reply(*reply))) == *reply);
}

void check_frame(skua::ByteSpan bytes) {
  for (const Dialect& dialect : builtin_dialects()) {
    FramePrefix prefix;
    if (bytes.size() < dialect.frame_bytes || !dialect.unpack(bytes.data(), prefix)) continue;
    std::array<std::byte, kFrameBytesMax> packed;
    dialect.pack(packed.data(), prefix);
    require(std::equal(packed.begin(), packed.begin() + dialect.frame_bytes, bytes.begin()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const skua::ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  check_hello(bytes);
  check_reply(bytes);
  check_frame(bytes);
  // Fuzzers rarely guess a length: with the field made right, the rest is reached more often.
  if (size >= 8 && size <= kHelloBytesMax) {
    std::string fixed(skua::as_string_view(bytes));
    auto* raw = reinterpret_cast<std::byte*>(fixed.data());
    skua::store_le(raw, kHelloMagic);
    skua::store_le(raw + 4, static_cast<uint16_t>(size));
    check_hello(skua::as_byte_span(fixed));
    check_reply(skua::as_byte_span(fixed));
  }
  return 0;
}
