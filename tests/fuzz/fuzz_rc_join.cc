// Datagrams that join shared queue pairs, as they come from a network: what is accepted encodes to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/transport/verbs/rc_join.h"

namespace verbs = skua::rpc::verbs;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const skua::ByteSpan input(reinterpret_cast<const std::byte*>(data), size);
  // Of exactly this size, so that a read behind its end is seen.
  const std::vector<std::byte> bytes(input.begin(), input.end());
  const auto message = verbs::JoinMessage::decode(bytes);
  if (!message.has_value()) return 0;
  const auto again = message->encode();
  SKUA_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "a message that encodes otherwise");
  SKUA_CHECK(!message->is_settled() || message->pair.has_value(), "settled without a pair");
  return 0;
}
