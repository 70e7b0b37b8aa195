// What a record of the log says: the effects of one mutation, evaluated, so that replay decides nothing.
//
//    record payload = effect, effect, ...      the record's index is the version of all of them
//
//    effect (little endian)
//     0 u8  kind (1 put, 2 delete)
//     1 u8  flags: 0
//     2 u16 key bytes
//     4 u32 value bytes; 0 for a delete
//     8 key, value
#ifndef SKUA_KVSTORE_ENGINE_EFFECT_H_
#define SKUA_KVSTORE_ENGINE_EFFECT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rpc/base/bytes.h"

namespace skua::kv {

/// Views into the decoder's input, or the submitter's bytes.
struct Effect {
  std::string_view key{};
  std::optional<ByteSpan> value{};  ///< nullopt: the key is deleted
};

inline constexpr size_t kEffectHeadBytes = 8;
using EffectHead = std::array<std::byte, kEffectHeadBytes>;

/// What stands before key and value. Key and value are within codec/limits.h.
void encode_effect_head(const Effect& effect, EffectHead& out);

/// Walks through a payload.
class EffectReader {
 public:
  explicit EffectReader(ByteSpan payload) : rest_(payload) {}

  /// The next effect; nullopt at the end, and at what is no effect.
  [[nodiscard]] std::optional<Effect> next();
  /// After nullopt: everything was read.
  [[nodiscard]] bool complete() const { return rest_.empty(); }

 private:
  ByteSpan rest_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_EFFECT_H_
