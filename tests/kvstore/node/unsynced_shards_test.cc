#include "kvstore/node/unsynced_shards.h"

#include <gtest/gtest.h>

#include <fstream>

#include "rpc/base/rng.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

TEST(UnsyncedShardsTest, BootNumber_IsTheSameWhileTheMachineRuns) {
  const auto boot = boot_number();
  ASSERT_TRUE(boot.ok()) << boot.status();
  EXPECT_NE(*boot, 0U);
  EXPECT_EQ(boot, boot_number());
}

TEST(UnsyncedShardsTest, FormatAndParse_GoldenTextAndBack) {
  const UnsyncedShards::Boots boots = {{{1, 0}, 7}, {{1, 12}, 8}};
  const std::string text = "# Written by skuad. Do not edit.\nformat_version = 1\n1-0 = 7\n1-12 = 8\n";
  EXPECT_EQ(UnsyncedShards::format(boots), text);
  EXPECT_EQ(UnsyncedShards::parse(text).value(), boots);
  EXPECT_EQ(UnsyncedShards::parse(UnsyncedShards::format({})).value(), UnsyncedShards::Boots{});
}

TEST(UnsyncedShardsTest, Parse_RefusesWhatItDoesNotWrite) {
  const std::string text = UnsyncedShards::format({{{1, 0}, 7}, {{1, 12}, 8}});
  for (size_t length = 0; length < text.size(); ++length) {
    const auto parsed = UnsyncedShards::parse(text.substr(0, length));
    // A whole line less is another file; the file is replaced as a whole, so that does not happen.
    if (parsed.ok()) {
      EXPECT_EQ(text[length - 1], '\n');
    }
  }
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    damaged[rng.below(damaged.size())] = static_cast<char>(rng.below(256));
    const auto parsed = UnsyncedShards::parse(damaged);
    if (parsed.ok()) {
      EXPECT_EQ(UnsyncedShards::parse(UnsyncedShards::format(*parsed)).value(), *parsed);
    }
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(
      UnsyncedShards::parse("# Written by skuad. Do not edit.\nformat_version = 2\n").status()));
}

TEST(UnsyncedShardsTest, ADoubtStaysUntilItIsForgotten) {
  const testing::TemporaryDirectory directory;
  const DirectoryFiles files(directory.path());
  auto first = UnsyncedShards::read(files, 1).value();
  ASSERT_TRUE(first.allow({{1, 0}, {1, 1}}).ok());
  EXPECT_TRUE(first.is_allowed({1, 0}));
  EXPECT_EQ(first.doubt({1, 0}), 0U);
  auto same_boot = UnsyncedShards::read(files, 1).value();
  EXPECT_TRUE(same_boot.is_allowed({1, 1}));

  auto next = UnsyncedShards::read(files, 2).value();
  EXPECT_EQ(next.doubt({1, 0}), 1U);
  ASSERT_TRUE(next.allow({{1, 0}, {1, 2}}).ok());
  EXPECT_FALSE(next.is_allowed({1, 0})) << "in doubt until somebody says otherwise";
  ASSERT_TRUE(next.forget({{1, 1}}).ok());
  EXPECT_EQ(next.doubt({1, 1}), 0U);
  ASSERT_TRUE(next.end_in_order().ok());

  const auto last = UnsyncedShards::read(files, 3).value();
  EXPECT_EQ(last.doubt({1, 0}), 1U);
  EXPECT_EQ(last.doubt({1, 2}), 0U);
}

TEST(UnsyncedShardsTest, PutInDoubt_AlsoForTheSameBoot) {
  const testing::TemporaryDirectory directory;
  const DirectoryFiles files(directory.path());
  auto shards = UnsyncedShards::read(files, 1).value();
  ASSERT_TRUE(shards.allow({{1, 0}}).ok());
  ASSERT_TRUE(shards.put_in_doubt({{1, 0}, {1, 1}}).ok());
  EXPECT_FALSE(shards.is_allowed({1, 0}));
  EXPECT_NE(UnsyncedShards::read(files, 1)->doubt({1, 0}), 0U);
  EXPECT_EQ(UnsyncedShards::read(files, 1)->doubt({1, 1}), 0U);
}

TEST(UnsyncedShardsTest, EndInDoubt_OfAllReplicasOfThisBoot) {
  const testing::TemporaryDirectory directory;
  const DirectoryFiles files(directory.path());
  auto before = UnsyncedShards::read(files, 1).value();
  ASSERT_TRUE(before.allow({{1, 0}}).ok());
  auto shards = UnsyncedShards::read(files, 2).value();
  ASSERT_TRUE(shards.allow({{1, 1}, {1, 2}}).ok());
  ASSERT_TRUE(shards.end_in_doubt().ok());
  const auto next = UnsyncedShards::read(files, 2).value();
  EXPECT_EQ(next.doubt({1, 0}), 1U);
  EXPECT_NE(next.doubt({1, 1}), 0U);
  EXPECT_NE(next.doubt({1, 2}), 0U);
  EXPECT_EQ(next.doubt({1, 3}), 0U);
}

}  // namespace
}  // namespace skua::kv
