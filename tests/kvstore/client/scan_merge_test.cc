#include "kvstore/client/scan_merge.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/codec/size_limits.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// Shards as sorted maps, and pages made of them as a node would.
struct Shards {
  std::vector<std::map<std::string, std::string>> rows;
  std::deque<std::string> pages;  // kept: the merge's rows point into them

  /// The page after `token`, through the codec.
  ScanReply page(uint32_t shard, std::string_view token, uint32_t rows_max, uint32_t bytes_max = 1 << 20) {
    auto at = rows[shard].begin();
    if (!token.empty()) at = rows[shard].upper_bound(std::string(*decode_resume_token(token)));
    ScanReplyBuilder builder(rows_max, bytes_max);
    bool has_more = false;
    for (; at != rows[shard].end() && !has_more; ++at) {
      has_more = !builder.add({at->first, 1, as_byte_span(at->second)});
    }
    pages.emplace_back(as_string_view(builder.finish({}, has_more)));
    return *decode_scan_reply(as_byte_span(pages.back()));
  }
};

std::vector<std::string> merge_all(ScanMerge& merge, Shards& shards, uint32_t page_rows_max, Rng& rng) {
  std::vector<std::string> keys;
  std::vector<uint32_t> asked;
  while (!merge.finished()) {
    while (auto row = merge.next()) keys.emplace_back(row->key);
    while (auto shard = merge.next_wanted()) asked.push_back(*shard);
    if (asked.empty()) break;
    // Answers come in any order.
    std::swap(asked[rng.below(asked.size())], asked.back());
    const uint32_t shard = asked.back();
    asked.pop_back();
    const ScanReply reply = shards.page(shard, merge.resume_token(shard), std::min(page_rows_max, merge.page_rows()));
    EXPECT_TRUE(merge.add_page(shard, reply.rows, reply.has_more, reply.resume_token).ok());
  }
  return keys;
}

TEST(Next, WaitsForEveryShardsFirstPage) {
  Shards shards{{{{"a", ""}}, {{"b", ""}}}, {}};
  ScanMerge merge;
  merge.begin(2, 10, 1000);
  EXPECT_EQ(merge.next_wanted(), 0u);
  EXPECT_EQ(merge.next_wanted(), 1u);
  EXPECT_EQ(merge.next_wanted(), std::nullopt);
  const ScanReply reply = shards.page(0, "", 10);
  ASSERT_TRUE(merge.add_page(0, reply.rows, reply.has_more, reply.resume_token).ok());
  EXPECT_FALSE(merge.next().has_value());
  EXPECT_FALSE(merge.finished());
}

TEST(Next, AgreesWithAMapForRandomShardsPagesAndLimits) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    Shards shards;
    shards.rows.resize(1 + rng.below(8));
    std::map<std::string, std::string> all;
    const uint64_t count = rng.below(200);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string key = absl::StrCat("k", rng.below(1000));
      const uint64_t shard = key_hash(key) % shards.rows.size();
      shards.rows[shard][key] = "v";
      all[key] = "v";
    }
    const auto limit = static_cast<uint32_t>(1 + rng.below(250));
    ScanMerge merge;
    merge.begin(static_cast<uint32_t>(shards.rows.size()), limit, size_t{1} << 30);
    const std::vector<std::string> keys = merge_all(merge, shards, static_cast<uint32_t>(1 + rng.below(20)), rng);
    std::vector<std::string> expected;
    for (const auto& [key, value] : all) {
      if (expected.size() < limit) expected.push_back(key);
    }
    ASSERT_EQ(keys, expected) << "seed " << seed;
    ASSERT_TRUE(merge.finished());
    if (all.size() > limit) {
      EXPECT_TRUE(merge.has_more());
    }
    if (all.size() < limit) {
      EXPECT_FALSE(merge.has_more());
    }
  }
}

TEST(Next, StopsBeforeTheBytesRunOutButNotBeforeTheFirstRow) {
  Shards shards{{{{"a", std::string(100, 'x')}, {"b", std::string(100, 'x')}, {"c", ""}}}, {}};
  Rng rng(1);
  ScanMerge merge;
  merge.begin(1, 10, 150);
  EXPECT_EQ(merge_all(merge, shards, 10, rng), std::vector<std::string>{"a"});
  EXPECT_TRUE(merge.finished());
  EXPECT_TRUE(merge.has_more());
  merge.begin(1, 10, 1);
  EXPECT_EQ(merge_all(merge, shards, 10, rng), std::vector<std::string>{"a"});
}

TEST(AddPage, RefusesKeysThatDoNotRise) {
  Shards shards{{{{"a", ""}, {"b", ""}, {"c", ""}}}, {}};
  ScanMerge merge;
  merge.begin(1, 10, 1000);
  merge.next_wanted();
  const ScanReply first = shards.page(0, "", 2);
  ASSERT_TRUE(first.has_more);
  ASSERT_TRUE(merge.add_page(0, first.rows, true, first.resume_token).ok());
  while (merge.next()) {
  }
  ASSERT_EQ(merge.next_wanted(), 0u);
  EXPECT_EQ(merge.add_page(0, first.rows, true, first.resume_token).code(), absl::StatusCode::kInternal);
}

TEST(AddPage, RefusesMoreWithoutRows) {
  ScanMerge merge;
  merge.begin(1, 10, 1000);
  EXPECT_EQ(merge.add_page(0, ScanRows(), true, "x").code(), absl::StatusCode::kInternal);
}

TEST(PageRows, AsksForAShareAndALittleMore) {
  ScanMerge merge;
  merge.begin(10, 100, 1000);
  EXPECT_EQ(merge.page_rows(), 10 + 7 + 1u);
  merge.begin(1, 1, 1000);
  EXPECT_EQ(merge.page_rows(), 1u);
  merge.begin(1, 100'000, 1000);
  EXPECT_EQ(merge.page_rows(), kScanRowsMax);
}

}  // namespace
}  // namespace skua::kv
