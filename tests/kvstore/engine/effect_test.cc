#include "kvstore/engine/effect.h"

#include <gtest/gtest.h>

#include <string>

#include "kvstore/codec/limits.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

std::string encoded(const Effect& effect) {
  EffectHead head;
  encode_effect_head(effect, head);
  std::string bytes(as_string_view(head));
  bytes += effect.key;
  if (effect.value) bytes += as_string_view(*effect.value);
  return bytes;
}

TEST(Effect, Encode_IsTheDocumentedLayout) {
  EXPECT_EQ(encoded({"key", as_byte_span("value")}), std::string("\x01\0\x03\0\x05\0\0\0keyvalue", 16));
  EXPECT_EQ(encoded({"key", std::nullopt}), std::string("\x02\0\x03\0\0\0\0\0key", 11));
}

TEST(Effect, Next_ReadsWhatWasWritten) {
  const std::string bytes =
      encoded({"a", as_byte_span("1")}) + encoded({"b", std::nullopt}) + encoded({"c", ByteSpan{}});
  EffectReader reader(as_byte_span(bytes));
  auto effect = reader.next();
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->key, "a");
  EXPECT_EQ(as_string_view(*effect->value), "1");
  effect = reader.next();
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->key, "b");
  EXPECT_FALSE(effect->value);
  effect = reader.next();
  ASSERT_TRUE(effect);
  EXPECT_TRUE(effect->value && effect->value->empty());
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.complete());
}

TEST(Effect, Next_StopsAtWhatIsNone) {
  const std::string good = encoded({"key", as_byte_span("value")});
  for (size_t size = 1; size < good.size(); ++size) {
    EffectReader reader(as_byte_span(good).first(size));
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.complete());
  }
  for (const std::string& bad : {std::string("\x03\0\x01\0\0\0\0\0k", 9), std::string("\x01\x01\x01\0\0\0\0\0k", 9),
                                 std::string("\x01\0\0\0\0\0\0\0", 8), std::string("\x02\0\x01\0\x01\0\0\0kv", 10)}) {
    EffectReader reader(as_byte_span(bad));
    EXPECT_FALSE(reader.next());
  }
}

TEST(Effect, Next_AnyBytesAreSafe) {
  Rng rng(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(rng.below(60), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.chance(0.5) ? rng.below(4) : rng.below(256));
    EffectReader reader(as_byte_span(bytes));
    size_t total = 0;
    while (const auto effect = reader.next()) total += encoded(*effect).size();
    EXPECT_LE(total, bytes.size());
    if (reader.complete()) {
      EXPECT_EQ(total, bytes.size());
    }
  }
}

}  // namespace
}  // namespace skua::kv
