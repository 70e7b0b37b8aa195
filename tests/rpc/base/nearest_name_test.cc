#include "rpc/base/nearest_name.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rpc/base/rng.h"

namespace skua {
namespace {

// By the definition, without a table.
size_t slow_distance(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const size_t change = a[0] == b[0] ? 0 : 1;
  size_t best = std::min({slow_distance(a.substr(1), b) + 1, slow_distance(a, b.substr(1)) + 1,
                          slow_distance(a.substr(1), b.substr(1)) + change});
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
    best = std::min(best, slow_distance(a.substr(2), b.substr(2)) + 1);
  }
  return best;
}

TEST(EditDistance, EditDistance_KnownPairs) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("data-dir", "data-dir"), 0u);
  EXPECT_EQ(edit_distance("data-dri", "data-dir"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, EditDistance_SameAsTheDefinition) {
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    std::string a;
    std::string b;
    for (uint64_t n = rng.below(6); n > 0; --n) a += static_cast<char>('a' + rng.below(3));
    for (uint64_t n = rng.below(6); n > 0; --n) b += static_cast<char>('a' + rng.below(3));
    EXPECT_EQ(edit_distance(a, b), slow_distance(a, b)) << a << " " << b;
  }
}

TEST(NearestName, NearestName_OnlyWhenNear) {
  const std::vector<std::string> names = {"data-dir", "workers", "log-level"};
  EXPECT_EQ(nearest_name("data-dri", names), "data-dir");
  EXPECT_EQ(nearest_name("worker", names), "workers");
  EXPECT_EQ(nearest_name("loglevel", names), "log-level");
  EXPECT_EQ(nearest_name("frobnicate", names), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
  EXPECT_EQ(nearest_name("x", {"t"}), std::nullopt);
  EXPECT_EQ(nearest_name("T", {"t"}), "t");
  EXPECT_EQ(nearest_name("gt", {"get"}), "get");
  EXPECT_EQ(nearest_name("DATA_DIR", names), "data-dir");
  EXPECT_EQ(nearest_name("LOG_LEVL", {"LOG_LEVEL"}), "LOG_LEVEL");
}

TEST(NearestName, NearestName_APartThatIsOnesOnly) {
  const std::vector<std::string> names = {"control-address", "dpdk-addresses", "log-level", "log-format"};
  EXPECT_EQ(nearest_name("control", names), "control-address");
  EXPECT_EQ(nearest_name("address", names), "control-address");
  EXPECT_EQ(nearest_name("log", names), std::nullopt);
  EXPECT_EQ(nearest_name("log", {"log-level", "log-level"}), "log-level");
  EXPECT_EQ(nearest_name("", names), std::nullopt);
}

}  // namespace
}  // namespace skua
