#include "kvstore/gateway/random_key_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"

namespace skua::kv::gateway {
namespace {

/// A table of keys, and searches in it.
class RandomKeySearchTest : public ::testing::Test {
 protected:
  ScanResult scan(const StoreRequest& request) {
    ScanResult page;
    auto at = keys_.lower_bound(std::string(request.key));
    for (; at != keys_.end() && (request.end.empty() || *at < request.end); ++at) {
      if (page.rows.size() == request.rows_max) {
        page.has_more = true;
        break;
      }
      page.rows.push_back({.key = *at, .value = {}});
    }
    return page;
  }

  std::optional<std::string> find() {
    RandomKeySearch search;
    steps_ = 0;
    while (!search.is_done()) {
      search.take(scan(search.scan()), random_.next());
      ++steps_;
    }
    return search.key();
  }

  std::set<std::string> keys_;
  Rng random_{7};
  int steps_ = 0;
};

TEST_F(RandomKeySearchTest, AnEmptyTableHasNone) {
  EXPECT_EQ(find(), std::nullopt);
}

TEST_F(RandomKeySearchTest, SmallTablesAreOnePage_AndEachKeyIsAsLikely) {
  keys_ = {"a", "b", "c", std::string(1, '\0')};
  std::map<std::string, int> found;
  for (int i = 0; i < 4000; ++i) ++found[find().value()];
  for (const std::string& key : keys_) EXPECT_NEAR(found[key], 1000, 200) << key;
  EXPECT_EQ(steps_, 1);
}

/// Keys as programs make them: all parts of the table come, in few steps.
TEST_F(RandomKeySearchTest, FindsKeysInAllPartsOfALargeTable) {
  for (int i = 0; i < 100'000; ++i) keys_.insert(absl::StrCat("user:profile:", 100'000 + i));
  std::map<char, int> found;
  int steps_most = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = find().value();
    EXPECT_TRUE(keys_.contains(key));
    ++found[key[std::string_view("user:profile:1").size()]];
    steps_most = std::max(steps_most, steps_);
  }
  for (char digit = '0'; digit <= '9'; ++digit) EXPECT_GT(found[digit], 50) << digit;
  EXPECT_LT(steps_most, 60);
}

/// Against a plain model: whatever the keys are, the search ends with one of them, and sooner or later with each.
TEST_F(RandomKeySearchTest, FindsEachKeyOfTablesOfAnyShape) {
  for (int table = 0; table < 8; ++table) {
    keys_.clear();
    const uint64_t alphabet = 1 + random_.below(256);
    const uint64_t first = random_.below(256 - alphabet + 1);
    for (int i = 0; i < 300; ++i) {
      std::string key(1 + random_.below(6), ' ');
      for (char& byte : key) byte = static_cast<char>(first + random_.below(alphabet));
      keys_.insert(key);
    }
    std::set<std::string> found;
    for (int i = 0; i < 200'000 && found.size() < keys_.size(); ++i) found.insert(find().value());
    EXPECT_EQ(found, keys_) << "bytes from " << first << ", " << alphabet << " of them";
  }
}

TEST_F(RandomKeySearchTest, LongCommonBeginningsCostOneStep) {
  for (int i = 0; i < 1000; ++i) keys_.insert(std::string(1000, 'k') + std::to_string(i));
  keys_.insert(std::string(1000, 'k'));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(keys_.contains(find().value()));
    EXPECT_LT(steps_, 40);
  }
}

/// Others remove what the search has just seen.
TEST_F(RandomKeySearchTest, EndsAlsoWhileKeysVanish) {
  for (int i = 0; i < 1000; ++i) keys_.insert(absl::StrCat("key", i));
  RandomKeySearch search;
  for (int step = 0; !search.is_done(); ++step) {
    ASSERT_LT(step, 10'000);
    ScanResult page = scan(search.scan());
    if (step % 3 == 2) page = {};
    search.take(page, random_.next());
  }
}

}  // namespace
}  // namespace skua::kv::gateway
