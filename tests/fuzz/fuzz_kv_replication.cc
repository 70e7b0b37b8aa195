// All decoders of messages between replicas: the first byte picks one, the rest is what it gets. No crash, no read
// outside of the input, and what a decoder accepts its encoder makes again byte for byte.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>

#include "tests/kvstore/replication/message_codec_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const skua::ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  const auto recoded =
      skua::kv::testing::kMessageRecoders[data[0] % std::size(skua::kv::testing::kMessageRecoders)](bytes);
  if (recoded && *recoded != skua::as_string_view(bytes)) std::abort();
  return 0;
}
