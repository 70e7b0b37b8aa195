// Datagrams that connect queue pairs, as they come from a network: what is accepted encodes to the same bytes, and a
// handshake that hears any row of them keeps its rules.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/transport/verbs/rc_handshake.h"

using skua::ByteSpan;
namespace verbs = skua::rpc::verbs;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan input(reinterpret_cast<const std::byte*>(data), size);
  verbs::RcHandshake side;
  skua::TimeNs now = 1;
  bool bound = false;
  for (size_t at = 0; at < input.size(); at += verbs::ConnectMessage::kBytes) {
    const ByteSpan piece = input.subspan(at, std::min(verbs::ConnectMessage::kBytes, input.size() - at));
    // Of exactly this size, so that a read behind its end is seen.
    const std::vector<std::byte> bytes(piece.begin(), piece.end());
    const auto message = verbs::ConnectMessage::decode(bytes);
    if (!message.has_value()) continue;
    const auto again = message->encode();
    SKUA_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "a message that encodes otherwise");
    now += 3 * skua::kMillisecond;
    const auto action = side.on_message(*message, now);
    if (action.close || action.renew) bound = false;
    SKUA_CHECK(!(action.bind && bound), "a queue pair that is bound twice");
    bound = bound || action.bind;
    SKUA_CHECK(!side.ready() || bound, "ready without a peer");
  }
  return 0;
}
