#include "kvstore/types/durability.h"

#include <gtest/gtest.h>

#include "kvstore/types/expiry.h"

namespace skua::kv {
namespace {

/// They stand in records, rows and messages.
TEST(DurabilityTest, CodesAreFixed) {
  EXPECT_EQ(durability_code(Durability::kMemory), 0);
  EXPECT_EQ(durability_code(Durability::kFlush), 1);
  EXPECT_EQ(durability_code(Durability::kSync), 2);
}

TEST(DurabilityTest, CodesAreReadBackAndOthersRefused) {
  for (const Durability durability : {Durability::kMemory, Durability::kFlush, Durability::kSync}) {
    EXPECT_EQ(durability_of_code(durability_code(durability)), durability);
  }
  for (const uint64_t code : {uint64_t{3}, uint64_t{255}, uint64_t{256}, UINT64_MAX}) {
    EXPECT_EQ(durability_of_code(code), std::nullopt) << code;
  }
}

TEST(DurabilityTest, StrongerOnesAreGreater) {
  EXPECT_LT(Durability::kMemory, Durability::kFlush);
  EXPECT_LT(Durability::kFlush, Durability::kSync);
}

TEST(DurabilityTest, NamesAreThoseOfOptions) {
  EXPECT_STREQ(durability_name(Durability::kDefault), "default");
  EXPECT_STREQ(durability_name(Durability::kMemory), "memory");
  EXPECT_STREQ(durability_name(Durability::kFlush), "flush");
  EXPECT_STREQ(durability_name(Durability::kSync), "sync");
}

TEST(ExpiryTest, KeyIsAbsentFromItsTimeOn) {
  EXPECT_FALSE(is_expired(100, 99));
  EXPECT_TRUE(is_expired(100, 100));
  EXPECT_TRUE(is_expired(100, 101));
  EXPECT_FALSE(is_expired(0, UINT64_MAX)) << "0: never";
}

}  // namespace
}  // namespace skua::kv
