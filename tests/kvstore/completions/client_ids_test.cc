#include "kvstore/completions/client_ids.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

constexpr DurationNs kIdleTime = ClientIds::kIdleNs;

/// The same, looking at all ids each time.
class DumbIds {
 public:
  explicit DumbIds(size_t ids_max) : ids_max_(ids_max) {}
  bool admit(uint64_t id, TimeNs now) {
    if (!last_.contains(id) && last_.size() >= ids_max_) {
      std::erase_if(last_, [&](const auto& entry) { return entry.second + kIdleTime <= now; });
    }
    if (!last_.contains(id) && last_.size() >= ids_max_) return false;
    last_[id] = now;
    return true;
  }

 private:
  size_t ids_max_;
  std::map<uint64_t, TimeNs> last_;
};

TEST(ClientIds, DoWhatDumbOnesDo) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Rng rng(seed);
    const size_t ids_max = 1 + rng.below(12);
    ClientIds ids(ids_max);
    DumbIds dumb(ids_max);
    TimeNs now = static_cast<TimeNs>(rng.below(uint64_t{1} << 50));
    size_t refused = 0;
    for (int step = 0; step < 500; ++step) {
      now += static_cast<TimeNs>(rng.below(kIdleTime / 8));
      const uint64_t id = rng.below(16);
      const bool admitted = dumb.admit(id, now);
      ASSERT_EQ(ids.admit(id, now), admitted) << "seed " << seed << " step " << step;
      ASSERT_LE(ids.size(), ids_max);
      refused += admitted ? 0 : 1;
    }
    if (ids_max <= 4) {
      EXPECT_GT(refused, 0u) << "seed " << seed;
    }
  }
}

TEST(ClientIds, TakeThePlaceOfOnesThatAreIdle) {
  ClientIds ids(2);
  EXPECT_TRUE(ids.admit(1, 0));
  EXPECT_TRUE(ids.admit(2, kSecond));
  EXPECT_FALSE(ids.admit(3, kIdleTime - 1)) << "both wrote within a minute";
  EXPECT_TRUE(ids.admit(2, kIdleTime - 1)) << "it has its place";
  EXPECT_TRUE(ids.admit(3, kIdleTime));
  EXPECT_FALSE(ids.admit(1, kIdleTime + kSecond)) << "it came back too late";
  EXPECT_TRUE(ids.admit(1, 2 * kIdleTime));
}

TEST(ClientIds, ALowerLimitTakesNoPlaceAway) {
  ClientIds ids(3);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(ids.admit(id, 0));
  ids.set_max(1);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(ids.admit(id, 1));
  EXPECT_FALSE(ids.admit(4, 1));
  EXPECT_TRUE(ids.admit(4, 1 + kIdleTime));
  EXPECT_FALSE(ids.admit(1, 1 + kIdleTime));
}

TEST(ClientIds, WithoutALimitAreAllAdmittedAndNotKept) {
  ClientIds ids;
  for (uint64_t id = 1; id <= 1000; ++id) EXPECT_TRUE(ids.admit(id, 0));
  EXPECT_EQ(ids.size(), 0u);
}

}  // namespace
}  // namespace skua::kv
