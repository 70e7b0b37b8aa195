#include "kvstore/codec/text.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

TEST(Text, NumbersAreGrouped) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(Text, NounsAreCounted) {
  EXPECT_EQ(counted(0, "shard"), "0 shards");
  EXPECT_EQ(counted(1, "shard"), "1 shard");
  EXPECT_EQ(counted(1024, "shard"), "1,024 shards");
}

TEST(Text, LimitsSayWhatIsAllowed) {
  EXPECT_EQ(beyond_limit("the key", "byte", 1025, 1024).message(),
            "the key has 1,025 bytes; at most 1,024 are allowed");
  EXPECT_EQ(beyond_limit("a BATCH", "operation", 0, 1024, 1).message(),
            "a BATCH has 0 operations; 1 to 1,024 are allowed");
}

}  // namespace
}  // namespace skua::kv
