// The payload of the log's records: no crash, no read outside of the input; what the decoder accepts the encoder makes
// again byte for byte.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "kvstore/engine/effect.h"

namespace {

using namespace skua;      // NOLINT(google-build-using-namespace)
using namespace skua::kv;  // NOLINT(google-build-using-namespace)

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan input = std::as_bytes(std::span(data, size));
  EffectReader reader(input);
  std::string again;
  while (const auto effect = reader.next()) {
    EffectHead head;
    encode_effect_head(*effect, head);
    again += as_string_view(head);
    again += effect->key;
    if (effect->value) again += as_string_view(*effect->value);
  }
  if (again.size() > size || (reader.complete() && again.size() != size)) std::abort();
  if (again != as_string_view(input.first(again.size()))) std::abort();
  return 0;
}
