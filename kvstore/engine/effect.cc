#include "kvstore/engine/effect.h"

#include "kvstore/codec/limits.h"

namespace skua::kv {
namespace {

constexpr uint8_t kPut = 1;
constexpr uint8_t kDelete = 2;

}  // namespace

void encode_effect_head(const Effect& effect, EffectHead& out) {
  ByteWriter writer(out);
  writer.write(effect.value ? kPut : kDelete);
  writer.write(uint8_t{0});
  writer.write(static_cast<uint16_t>(effect.key.size()));
  writer.write(static_cast<uint32_t>(effect.value ? effect.value->size() : 0));
}

std::optional<Effect> EffectReader::next() {
  if (rest_.size() < kEffectHeadBytes) return std::nullopt;
  ByteReader reader(rest_);
  const auto kind = reader.read<uint8_t>();
  const auto flags = reader.read<uint8_t>();
  const size_t key_bytes = reader.read<uint16_t>();
  const size_t value_bytes = reader.read<uint32_t>();
  const bool sound = (kind == kPut || (kind == kDelete && value_bytes == 0)) && flags == 0 && key_bytes >= 1 &&
                     key_bytes <= kKeyBytesMax && value_bytes <= kValueBytesMax &&
                     rest_.size() - kEffectHeadBytes >= key_bytes + value_bytes;
  if (!sound) return std::nullopt;
  Effect effect;
  effect.key = as_string_view(rest_.subspan(kEffectHeadBytes, key_bytes));
  if (kind == kPut) effect.value = rest_.subspan(kEffectHeadBytes + key_bytes, value_bytes);
  rest_ = rest_.subspan(kEffectHeadBytes + key_bytes + value_bytes);
  return effect;
}

}  // namespace skua::kv
