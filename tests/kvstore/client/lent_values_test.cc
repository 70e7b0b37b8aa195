// Values that are lent, on a network that loses, repeats and delays packets. Their memory is read until it is released,
// and never later.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

/// Memory that is lent to one write, and overwritten when it is released.
struct Lent {
  explicit Lent(std::string value) : bytes(std::move(value)) {}

  std::string bytes;
  int releases = 0;
  int callbacks = 0;
  bool ended_before_release = false;

  PutValue lend() { return PutValue::lend(bytes, release, this); }
  static void release(void* context) {
    auto* const self = static_cast<Lent*>(context);
    ++self->releases;
    self->ended_before_release = self->callbacks > 0;
    std::ranges::fill(self->bytes, '!');
  }
};

std::string value_of(uint64_t number, size_t size) {
  return std::string(size, static_cast<char>('a' + number % 26));
}

/// A node restarts now and then, and half of the writes have little time.
void run(uint64_t seed, uint64_t& repeated, uint64_t& late) {
  Rng rng(seed);
  ClientWorld world(2, {}, seed);
  world.publish_owners({0, 1}, 1);
  ClientCore& client = world.start_client();
  world.network.set_faults({.loss = 0.05, .duplicate = 0.05, .reorder = 0.1, .late_tx = 0.3});
  std::vector<std::unique_ptr<Lent>> lent;
  std::vector<absl::Status> ends(150);
  for (uint64_t i = 0; i < ends.size(); ++i) {
    lent.push_back(std::make_unique<Lent>(value_of(i, rng.below(i % 10 == 0 ? 400'000 : 4'000))));
    const WriteOptions options{.timeout = std::chrono::milliseconds(i % 2 == 0 ? 10'000 : 1 + rng.below(10))};
    ASSERT_TRUE(client
                    .put("t", absl::StrCat("k", i), lent[i]->lend(), options,
                         [&ends, &lent, i](WriteResult&& result) {
                           ++lent[i]->callbacks;
                           ends[i] = result.status;
                         })
                    .ok());
    EXPECT_EQ(lent[i]->releases, 0);
    if (i % 50 == 49) {
      world.restart_node(i % 2);
      world.publish_owners({0, 1}, 1);
    }
    world.run_until([] { return false; }, static_cast<DurationNs>(rng.below(3 * kMillisecond)));
  }
  ASSERT_TRUE(world.run_until(
      [&] { return std::ranges::all_of(lent, [](const auto& one) { return one->callbacks + one->releases == 2; }); }));
  repeated += client.counters().retries;
  for (uint64_t i = 0; i < ends.size(); ++i) {
    late += lent[i]->ended_before_release ? 1 : 0;
    EXPECT_EQ(lent[i]->releases, 1);
    EXPECT_EQ(lent[i]->callbacks, 1);
    if (!ends[i].ok()) continue;
    const std::string key = absl::StrCat("k", i);
    const std::string expected = value_of(i, lent[i]->bytes.size());
    EXPECT_TRUE(std::ranges::any_of(std::vector<uint32_t>{0, 1}, [&](uint32_t node) {
      const auto entry = world.store(node).entries.find(key);
      return entry != world.store(node).entries.end() && entry->second.value == expected;
    })) << key;
  }
  EXPECT_EQ(world.network.violations().tx_changed, 0U);
}

TEST(LentValues, AreReleasedOnce_AndNotReadLater_UnderFaults) {
  uint64_t repeated = 0;
  uint64_t late = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    run(seed, repeated, late);
  }
  EXPECT_GT(repeated, 0u);
  EXPECT_GT(late, 0u) << "some are read after their operation has ended";
}

}  // namespace
}  // namespace skua::kv
