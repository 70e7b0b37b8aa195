#include <gtest/gtest.h>

#include <vector>

#include "rpc/base/rng.h"
#include "rpc/wire/packet_header.h"
#include "tests/rpc/wire/wire_testing.h"

namespace skua::rpc {
namespace {

using testing::from_hex;
using testing::to_hex;

std::vector<std::byte> encoded(const PacketSet& set) {
  std::vector<std::byte> out(PacketSet::kEncodedMax);
  out.resize(set.encode(out.data()));
  return out;
}

TEST(PacketSet, Encode_GoldenBytes) {
  PacketSet set;
  EXPECT_EQ(to_hex(encoded(set)), "00000000");
  set.base = 0x0102;
  set.word_count = 2;
  set.words[0] = 0x1122334455667788;
  set.words[1] = 1;
  EXPECT_EQ(to_hex(encoded(set)),
            "02010200"
            "8877665544332211"
            "0100000000000000");
}

TEST(PacketSet, Decode_RandomRoundTrips) {
  Rng rng(1);
  for (int i = 0; i < 5000; ++i) {
    PacketSet set;
    set.base = static_cast<uint16_t>(rng.next());
    set.word_count = static_cast<uint16_t>(rng.below(PacketSet::kWordsMax + 1));
    for (size_t w = 0; w < set.word_count; ++w) set.words[w] = rng.next();
    PacketSet out;
    out.words.fill(UINT64_MAX);  // leftovers must go
    ASSERT_TRUE(PacketSet::decode(encoded(set), out));
    ASSERT_EQ(out, set);
  }
}

TEST(PacketSet, Decode_TruncatedOrExtendedAtEveryByte) {
  PacketSet set;
  set.word_count = PacketSet::kWordsMax;
  const std::vector<std::byte> whole = encoded(set);
  ASSERT_EQ(whole.size(), PacketSet::kEncodedMax);
  PacketSet out;
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<long>(size));
    EXPECT_FALSE(PacketSet::decode(cut, out)) << size;
  }
  std::vector<std::byte> longer = whole;
  longer.emplace_back();
  EXPECT_FALSE(PacketSet::decode(longer, out));
  EXPECT_TRUE(PacketSet::decode(whole, out));
}

TEST(PacketSet, Decode_TooManyWords) {
  PacketSet out;
  EXPECT_FALSE(PacketSet::decode(as_byte_span(from_hex("0000 0500") + std::string(40, '\0')), out));
  EXPECT_FALSE(PacketSet::decode(as_byte_span(from_hex("0000 ffff")), out));
}

}  // namespace
}  // namespace skua::rpc
