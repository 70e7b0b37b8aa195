#include "control/store/embedded_layout.h"

#include <gtest/gtest.h>

#include "rpc/base/rng.h"

namespace skua::control::embedded {
namespace {

TEST(HistoryKey, SortsByRevisionThenIndex) {
  EXPECT_LT(history_key(1, 5), history_key(2, 0));
  EXPECT_LT(history_key(255, 0), history_key(256, 0));
  EXPECT_LT(history_key(1, 255), history_key(1, 256));
  EXPECT_EQ(history_key(0x0102, 3), std::string("h/\0\0\0\0\0\0\1\2\0\0\0\3", 14));
}

TEST(Record, GoldenBytesAndRoundTrip) {
  const KeyValue kv{"key", "value", 1, 2};
  EXPECT_EQ(encode_record(kv), std::string("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0value", 21));
  EXPECT_EQ(decode_record("key", encode_record(kv)), kv);
}

TEST(Event, GoldenBytesAndRoundTrip) {
  const WatchEvent event{WatchEvent::Kind::kDelete, {"key", "", 0, 2}};
  EXPECT_EQ(encode_event(event), std::string("\1\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0key", 24));
  EXPECT_EQ(decode_event(encode_event(event)), event);
}

TEST(Decode, RefusesTruncatedAndUnknown) {
  const std::string event = encode_event({WatchEvent::Kind::kPut, {"k", "", 1, 1}});
  for (size_t size = 0; size < event.size(); ++size) {
    EXPECT_FALSE(decode_event(event.substr(0, size)).has_value()) << size;
  }
  std::string unknown = event;
  unknown[0] = 2;
  EXPECT_FALSE(decode_event(unknown).has_value());
  EXPECT_FALSE(decode_record("k", "fifteen bytes..").has_value());
  EXPECT_FALSE(decode_u64("1234567").has_value());
  EXPECT_FALSE(decode_u64("123456789").has_value());
}

TEST(Decode, SurvivesRandomBytes) {
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    std::string bytes(rng.below(40), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.below(256));
    (void)decode_event(bytes);
    (void)decode_record("k", bytes);
  }
}

}  // namespace
}  // namespace skua::control::embedded
