#include "kvstore/codec/effect.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "kvstore/codec/size_limits.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/codec/batch_results.h"

namespace skua::kv {
namespace {

std::string encoded(const Effect& effect) {
  EffectHead head;
  ByteWriter writer(head);
  encode_effect_head(effect, writer);
  std::string bytes(as_string_view(writer.written()));
  bytes += effect.key;
  if (effect.value) bytes += as_string_view(*effect.value);
  return bytes;
}

TEST(Effect, Encode_IsTheDocumentedLayout) {
  EXPECT_EQ(encoded({"key", as_byte_span("value")}), std::string("\x01\0\x03\0\x05\0\0\0keyvalue", 16));
  EXPECT_EQ(encoded({"key", std::nullopt}), std::string("\x02\0\x03\0\0\0\0\0key", 11));
  EXPECT_EQ(encoded({"key", as_byte_span("value"), 0x0102030405060708}),
            std::string("\x01\x01\x03\0\x05\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01keyvalue", 24));
  EXPECT_EQ(encoded({"k", as_byte_span("v"), 1, {0x01020304, true}}),
            std::string("\x01\x03\x01\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x04\x03\x02\x01\x01\0\0\0kv", 26));
}

TEST(Effect, Encode_TheWholeEffectAsHeadKeyAndValue) {
  const std::string value(300, 'v');
  for (const Effect& effect : {Effect{"k", as_byte_span(value)}, Effect{"key", ByteSpan{}}, Effect{"gone"},
                               Effect{"k", as_byte_span(value), 77}, Effect{"k", as_byte_span("v"), 77, {5, true}},
                               Effect{"k", as_byte_span("v"), 0, {5, false}}}) {
    Effect moved = effect;
    std::string bytes(encoded_bytes(effect) + 1, '#');
    std::byte* const begin = reinterpret_cast<std::byte*>(bytes.data());
    EXPECT_EQ(encode_effect(moved, begin), begin + bytes.size() - 1);
    EXPECT_EQ(bytes, encoded(effect) + '#');
    EXPECT_EQ(moved.key, effect.key);
    EXPECT_EQ(reinterpret_cast<const std::byte*>(moved.key.data()) + moved.key.size(),
              begin + bytes.size() - 1 - (effect.value ? effect.value->size() : 0))
        << "the effect is a view of the bytes now";
    ASSERT_EQ(moved.value.has_value(), effect.value.has_value());
    if (!moved.value) continue;
    EXPECT_EQ(as_string_view(*moved.value), as_string_view(*effect.value));
    EXPECT_EQ(moved.value->data() + moved.value->size(), begin + bytes.size() - 1);
  }
}

std::string encoded(const Completion& completion) {
  std::array<std::byte, kCompletionHeadBytes> head;
  ByteWriter writer(head);
  encode_completion_head(completion, writer);
  return std::string(as_string_view(writer.written())) + std::string(as_string_view(completion.batch_results));
}

TEST(Completion, Encode_IsTheDocumentedLayout) {
  std::string results;
  append_batch_result({KvStatus::kOk, 99, -2}, results);
  append_batch_result({KvStatus::kNotFound, 0, 0}, results);
  EXPECT_EQ(encoded(Completion{{1, 2, 3}, -1, {}}),
            std::string("\x03\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
                        "\xff\xff\xff\xff\xff\xff\xff\xff",
                        40));
  EXPECT_EQ(encoded(Completion{{1, 3, 2}, 0, as_byte_span(results)}),
            std::string("\x03\0\2\0\0\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff"
                        "\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                        72));
}

TEST(Completion, Read_StandsBeforeTheEffects) {
  std::string results;
  append_batch_result({KvStatus::kOk, 0, 7}, results);
  const std::string bytes =
      encoded(Completion{{5, 6, 6}, 0, as_byte_span(results)}) + encoded({"a", as_byte_span("1")});
  EffectReader reader(as_byte_span(bytes));
  ASSERT_TRUE(reader.completion());
  EXPECT_EQ(reader.completion()->id, (RequestId{5, 6, 6}));
  EXPECT_EQ(batch_result(reader.completion()->batch_results, 0, 40), (MutationResult{KvStatus::kOk, 40, 7}));
  const auto effect = reader.next();
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->key, "a");
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.complete());
}

TEST(Completion, Read_RefusesWhatIsNone) {
  std::string results;
  append_batch_result({KvStatus::kNotARow, 0, 0}, results);
  for (const Completion& bad : {Completion{{0, 1, 1}, 0, {}}, Completion{{1, 0, 0}, 0, {}},
                                Completion{{1, 2, 3}, 0, {}}, Completion{{1, 1, 1}, 0, as_byte_span(results)}}) {
    const std::string bytes = encoded(bad);
    EffectReader reader(as_byte_span(bytes));
    EXPECT_FALSE(reader.completion());
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.complete());
  }
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

TEST(Effect, Next_ReadsMarks) {
  const std::string bytes = encoded({"a", as_byte_span("1"), 9, {7, false}}) + encoded({"b", ByteSpan{}, 0, {0, true}});
  EXPECT_EQ(encoded_bytes({"a", as_byte_span("1"), 9, {7, false}}) + encoded_bytes({"b", ByteSpan{}, 0, {0, true}}),
            bytes.size());
  EffectReader reader(as_byte_span(bytes));
  auto effect = reader.next();
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->mark, (RecordMark{7, false}));
  EXPECT_EQ(effect->expires_at, 9u);
  effect = reader.next();
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->mark, (RecordMark{0, true}));
  EXPECT_TRUE(reader.complete());
}

TEST(Effect, Next_StopsAtWhatIsNone) {
  const std::string good = encoded({"key", as_byte_span("value")});
  for (size_t size = 1; size < good.size(); ++size) {
    EffectReader reader(as_byte_span(good).first(size));
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.complete());
  }
  for (const std::string& bad : {std::string("\x03\0\x01\0\0\0\0\0k", 9), std::string("\x01\x04\x01\0\0\0\0\0k", 9),
                                 std::string("\x01\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0k", 17),
                                 std::string("\x01\x02\x01\0\0\0\0\0\0\0\0\0\2\0\0\0k", 17),
                                 std::string("\x02\x02\x01\0\0\0\0\0\1\0\0\0\0\0\0\0k", 17),
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
    if (reader.completion()) total += encoded(*reader.completion()).size();
    while (const auto effect = reader.next()) total += encoded(*effect).size();
    EXPECT_LE(total, bytes.size());
    if (reader.complete()) {
      EXPECT_EQ(total, bytes.size());
    }
  }
}

}  // namespace
}  // namespace skua::kv
