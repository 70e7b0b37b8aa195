#include "control/core/uuid.h"

#include <gtest/gtest.h>

namespace skua::control {
namespace {

TEST(Uuid, FromRandom_SetsVersionAndVariant) {
  EXPECT_EQ(uuid_from_random(0, 0), "00000000-0000-4000-8000-000000000000");
  EXPECT_EQ(uuid_from_random(~uint64_t{0}, ~uint64_t{0}), "ffffffff-ffff-4fff-bfff-ffffffffffff");
  EXPECT_EQ(uuid_from_random(0x0123456789abcdef, 0x0123456789abcdef), "01234567-89ab-4def-8123-456789abcdef");
}

TEST(Uuid, IsUuid_TakesOnlyTheCanonicalForm) {
  EXPECT_TRUE(is_uuid("01234567-89ab-4def-8123-456789abcdef"));
  EXPECT_FALSE(is_uuid(""));
  EXPECT_FALSE(is_uuid("01234567-89AB-4def-8123-456789abcdef"));
  EXPECT_FALSE(is_uuid("01234567-89ab-4def-8123-456789abcde"));
  EXPECT_FALSE(is_uuid("01234567-89ab-4def-8123-456789abcdef0"));
  EXPECT_FALSE(is_uuid("0123456-789ab-4def-8123-456789abcdef"));
  EXPECT_FALSE(is_uuid("01234567-89ab-4def-8123-456789abcdeg"));
}

}  // namespace
}  // namespace skua::control
