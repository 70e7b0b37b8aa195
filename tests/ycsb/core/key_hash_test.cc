#include "ycsb/core/key_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "rpc/base/rng.h"

namespace skua::ycsb {
namespace {

std::string key(uint64_t n, KeyHash dialect) {
  std::string out;
  write_key(out, "user", hash_key_number(n, dialect), 1);
  return out;
}

TEST(KeyHash, HashKeyNumber_MatchesJava) {
  EXPECT_EQ(key(0, KeyHash::kJava), "user6284781860667377211");
  EXPECT_EQ(key(1, KeyHash::kJava), "user8517097267634966620");
  EXPECT_EQ(key(2, KeyHash::kJava), "user1820151046732198393");
  EXPECT_EQ(key(10, KeyHash::kJava), "user2408371864701034737");
  EXPECT_EQ(key(1'000'000, KeyHash::kJava), "user1011632231655643464");
}

TEST(KeyHash, HashKeyNumber_MatchesYcsbCpp) {
  EXPECT_EQ(key(0, KeyHash::kCpp), "user12161962213042174405");
  EXPECT_EQ(key(1, KeyHash::kCpp), "user9929646806074584996");
  EXPECT_EQ(key(2, KeyHash::kCpp), "user16626593026977353223");
  EXPECT_EQ(key(10, KeyHash::kCpp), "user16038372209008516879");
  EXPECT_EQ(key(1'000'000, KeyHash::kCpp), "user1011632231655643464");
}

TEST(KeyHash, HashKeyNumber_MatchesGoYcsb) {
  EXPECT_EQ(key(0, KeyHash::kGo), "user6284781860667377211");
  EXPECT_EQ(key(1, KeyHash::kGo), "user6284782960179005422");
  EXPECT_EQ(key(2, KeyHash::kGo), "user6284784059690633633");
  EXPECT_EQ(key(10, KeyHash::kGo), "user6284775263597607945");
  EXPECT_EQ(key(1'000'000, KeyHash::kGo), "user2740105236383194386");
}

// Leading digits of Java's keys: about 12 % each for 1..8 and 3.6 % for 9; of YCSB-cpp's, half
// start with 1.
TEST(KeyHash, HashKeyNumber_LeadingDigitsSpreadAsInEachTool) {
  constexpr uint64_t kKeys = 200'000;
  std::array<double, 10> java{};
  std::array<double, 10> cpp{};
  for (uint64_t n = 0; n < kKeys; ++n) {
    java.at(static_cast<size_t>(key(n, KeyHash::kJava)[4] - '0')) += 1.0 / kKeys;
    cpp.at(static_cast<size_t>(key(n, KeyHash::kCpp)[4] - '0')) += 1.0 / kKeys;
  }
  for (size_t digit = 1; digit <= 8; ++digit) EXPECT_NEAR(java.at(digit), 0.12, 0.005) << digit;
  EXPECT_NEAR(java[9], 0.036, 0.005);
  EXPECT_NEAR(cpp[1], 0.52, 0.01);
  for (size_t digit = 2; digit <= 9; ++digit) EXPECT_NEAR(cpp.at(digit), 0.06, 0.006) << digit;
}

TEST(KeyHash, WriteKey_PadsToTheDigitsAsked) {
  std::string out = "left over from the last use";
  write_key(out, "user", 5, 8);
  EXPECT_EQ(out, "user00000005");
  write_key(out, "user", 5, 1);
  EXPECT_EQ(out, "user5");
  write_key(out, "", 123, 2);
  EXPECT_EQ(out, "123");
  write_key(out, "k", UINT64_MAX, 20);
  EXPECT_EQ(out, "k18446744073709551615");
}

// Twin: FNV-1a octet by octet, and the library's decimal digits; numbers of every length.
TEST(KeyHash, AgreesWithThePlainForms) {
  Rng rng(3);
  std::string out;
  const auto check = [&](uint64_t n) {
    uint64_t hash = 0xCBF29CE484222325;
    for (int i = 0; i < 8; ++i) hash = (hash ^ (n >> 8 * i & 0xff)) * 1099511628211;
    ASSERT_EQ(hash_key_number(n, KeyHash::kCpp), hash) << n;
    write_key(out, "user", n, 1);
    ASSERT_EQ(out, "user" + std::to_string(n));
  };
  uint64_t power = 1;
  for (int digits = 1; digits <= 20; ++digits, power *= 10)
    for (const uint64_t n : {power - 1, power, power + 1}) check(n);
  for (int bits = 0; bits < 64; ++bits)
    for (int i = 0; i < 1000; ++i) check(rng.next() >> bits);
  for (uint64_t n = 0; n < 100'000; ++n) check(n * 1000 + n % 1000);
}

}  // namespace
}  // namespace skua::ycsb
