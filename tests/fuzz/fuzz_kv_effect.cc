// The payload of the log's records: no crash, no read outside of the input; what the decoder accepts the encoder makes
// again byte for byte. And the engine's own rows in a database, a client's and that of the shard's lives, which are
// read the same way.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/completions/completions.h"
#include "kvstore/storage/shard_life.h"

namespace {

using namespace skua;      // NOLINT(google-build-using-namespace)
using namespace skua::kv;  // NOLINT(google-build-using-namespace)

std::string again(EffectReader& reader) {
  std::string bytes;
  std::array<std::byte, kCompletionHeadBytes> buffer;
  if (reader.entry()) {
    ByteWriter head(buffer);
    encode_entry_head(*reader.entry(), head);
    bytes += as_string_view(head.written());
  }
  if (reader.barrier()) bytes += encode_barrier(*reader.barrier());
  if (reader.completion()) {
    ByteWriter head(buffer);
    encode_completion_head(*reader.completion(), head);
    bytes += as_string_view(head.written());
    bytes += as_string_view(reader.completion()->batch_results);
  }
  while (const auto effect = reader.next()) {
    ByteWriter head(buffer);
    encode_effect_head(*effect, head);
    bytes += as_string_view(head.written());
    bytes += effect->key;
    if (effect->value) bytes += as_string_view(*effect->value);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan input = std::as_bytes(std::span(data, size));
  EffectReader reader(input);
  const std::string bytes = again(reader);
  if (bytes.size() > size || (reader.complete() && bytes.size() != size)) std::abort();
  if (bytes != as_string_view(input.first(bytes.size()))) std::abort();

  CompletionTable table;
  if (table.load(7, input, 9)) {
    std::string row;
    if (table.encode_row(7, row) != 9 || row != as_string_view(input)) std::abort();
  }

  const std::vector<InternalRow> rows = {{life_key(), std::string(as_string_view(input))}};
  const auto life = read_life(rows);
  if (life.ok() && encode_life(*life) != as_string_view(input)) std::abort();
  return 0;
}
