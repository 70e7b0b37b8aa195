#include "app/uuid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace skua::app {
namespace {

TEST(Uuid, RandomUuid_IsVersion4AndNew) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = random_uuid();
    ASSERT_THAT(uuid, testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                                            "[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
    EXPECT_EQ(*parse_uuid(uuid), uuid);
    EXPECT_TRUE(seen.insert(uuid).second);
  }
}

TEST(Uuid, ParseUuid_CanonicalForm) {
  EXPECT_EQ(*parse_uuid("{0D2F5F43-0000-4000-8000-00000000ABCD}"), "0d2f5f43-0000-4000-8000-00000000abcd");
}

TEST(Uuid, ParseUuid_Refusals) {
  for (const char* bad : {"", "x", "0d2f5f43-0000-4000-8000-00000000abc", "0d2f5f43-0000-4000-8000-00000000abcg",
                          "0d2f5f43x0000-4000-8000-00000000abcd", "{0d2f5f43-0000-4000-8000-00000000abcd"}) {
    EXPECT_FALSE(parse_uuid(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace skua::app
