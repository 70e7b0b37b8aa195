#include "ycsb/core/field_length.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace skua::ycsb {
namespace {

std::map<uint64_t, double> shares(const FieldLength& length) {
  constexpr int kDraws = 200'000;
  Rng rng(3);
  std::map<uint64_t, double> share;
  for (int i = 0; i < kDraws; ++i) share[length.next(rng)] += 1.0 / kDraws;
  return share;
}

TEST(FieldLength, Constant) {
  EXPECT_EQ(shares(FieldLength::constant(100)).size(), 1U);
  Rng rng(1);
  EXPECT_EQ(FieldLength::constant(0).next(rng), 0U);
}

TEST(FieldLength, Uniform_BothEndsIncluded) {
  const auto share = shares(FieldLength::uniform(3, 12));
  ASSERT_EQ(share.size(), 10U);
  EXPECT_EQ(share.begin()->first, 3U);
  for (const auto& [length, part] : share) EXPECT_NEAR(part, 0.1, 0.005) << length;
}

TEST(FieldLength, Zipfian_FavoursShort) {
  const auto share = shares(FieldLength::zipfian(5, 104));
  EXPECT_NEAR(share.at(5), 1 / zeta(100, 0.99), 0.005);
  EXPECT_GE(share.begin()->first, 5U);
  EXPECT_LE(share.rbegin()->first, 104U);
}

TEST(FieldLength, Histogram_LargestOfEachBucketByWeight) {
  const auto length = FieldLength::histogram("BlockSize\t10\n0\t1\n1\t0\r\n2\t3\n");
  ASSERT_TRUE(length.ok()) << length.status();
  const auto share = shares(*length);
  ASSERT_EQ(share.size(), 2U);
  EXPECT_NEAR(share.at(10), 0.25, 0.005);
  EXPECT_NEAR(share.at(30), 0.75, 0.005);
}

// Java gives 10 each time: its last bucket is one block short, and the first one is drawn for one unit of weight more.
TEST(FieldLength, Histogram_LastBucketHasItsLengthAndItsShare) {
  const auto length = FieldLength::histogram("BlockSize\t10\n0\t1\n1\t1\n");
  ASSERT_TRUE(length.ok()) << length.status();
  const auto share = shares(*length);
  EXPECT_NEAR(share.at(10), 0.5, 0.005);
  EXPECT_NEAR(share.at(20), 0.5, 0.005);
}

TEST(FieldLength, Histogram_RefusesWhatIsNone) {
  for (const std::string text :
       {"", "BlockSize\n", "BlockSize\t0\n0\t1\n", "Block\t10\n", "BlockSize\t10\n1\t5\n", "BlockSize\t10\n0\tmany\n",
        "BlockSize\t10\n0\t0\n", "BlockSize\t10\n0\t-1\n", "BlockSize\t60000000\n0\t1\n1\t1\n"}) {
    EXPECT_FALSE(FieldLength::histogram(text).ok()) << text;
  }
  const auto wrong = FieldLength::histogram("BlockSize\t10\n0\t1\nx\t1\n");
  EXPECT_NE(std::string(wrong.status().message()).find("line 3"), std::string::npos);
}

}  // namespace
}  // namespace skua::ycsb
