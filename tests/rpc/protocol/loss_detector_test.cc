#include "rpc/protocol/loss_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

constexpr auto kNothingSettled = [](uint32_t) { return false; };

std::vector<uint32_t> detected(LossDetector& detector, DurationNs window, const std::set<uint32_t>& settled = {}) {
  std::vector<uint32_t> out;
  detector.detect(
      window, [&](uint32_t unit) { return settled.count(unit) > 0; }, [&](uint32_t unit) { out.push_back(unit); });
  return out;
}

TEST(LossDetector, Detect_NothingWithoutAnArrival) {
  LossDetector detector;
  EXPECT_TRUE(detector.empty());
  detector.on_sent(0, 10);
  detector.on_sent(1, 1'000'000);
  EXPECT_EQ(detected(detector, 5), (std::vector<uint32_t>{}));
  EXPECT_FALSE(detector.empty());
}

TEST(LossDetector, Detect_OlderThanAnArrivalByMoreThanTheWindow) {
  LossDetector detector;
  detector.on_sent(0, 100);
  detector.on_sent(1, 105);
  detector.on_sent(2, 111);
  detector.on_arrived(2);
  // Unit 0 is 11 older than what arrived, unit 1 only 6.
  EXPECT_EQ(detected(detector, 10, {2}), (std::vector<uint32_t>{0}));
  EXPECT_EQ(detected(detector, 10, {2}), (std::vector<uint32_t>{}));
}

TEST(LossDetector, Detect_ExactlyTheWindowIsNotLost) {
  LossDetector detector;
  detector.on_sent(0, 100);
  detector.on_sent(1, 110);
  detector.on_arrived(1);
  EXPECT_EQ(detected(detector, 10, {1}), (std::vector<uint32_t>{}));
  EXPECT_EQ(detected(detector, 9, {1}), (std::vector<uint32_t>{0}));
}

TEST(LossDetector, Detect_ArrivalOfTheResentCopyCondemnsWhatWasSentBetween) {
  LossDetector detector;
  detector.on_sent(0, 100);
  detector.on_sent(1, 200);
  detector.on_sent(2, 210);
  detector.on_arrived(2);
  EXPECT_EQ(detected(detector, 50, {2}), (std::vector<uint32_t>{0}));
  detector.on_sent(0, 300);
  detector.on_arrived(0);
  EXPECT_EQ(detected(detector, 50, {0, 2}), (std::vector<uint32_t>{1}));
  EXPECT_TRUE(detector.empty());
}

TEST(LossDetector, Train_PartsArriveAndTheRestIsLost) {
  LossDetector detector;
  detector.on_sent(0, 8, 100);
  detector.on_sent(8, 4, 200);
  detector.on_arrived(0, 3);
  detector.on_arrived(5, 10);
  EXPECT_EQ(detected(detector, 50, {0, 1, 2, 5, 6, 7, 8, 9}), (std::vector<uint32_t>{3, 4}));
  uint32_t unit;
  ASSERT_TRUE(detector.take_probe(kNothingSettled, unit));
  EXPECT_EQ(unit, 11u);
  EXPECT_EQ(detected(detector, 0, {8, 9}), (std::vector<uint32_t>{}));
  std::vector<uint32_t> lost;
  detector.lose_all(kNothingSettled, [&](uint32_t u) { lost.push_back(u); });
  EXPECT_EQ(lost, std::vector<uint32_t>{10});
  EXPECT_TRUE(detector.empty());
}

TEST(LossDetector, OnArrived_UnknownUnitChangesNothing) {
  LossDetector detector;
  detector.on_sent(0, 100);
  detector.on_arrived(7);
  EXPECT_EQ(detected(detector, 0), (std::vector<uint32_t>{}));
  EXPECT_FALSE(detector.empty());
}

TEST(LossDetector, TakeProbe_NewestMissing) {
  LossDetector detector;
  for (uint32_t unit = 0; unit < 4; ++unit) detector.on_sent(unit, 100 + unit);
  uint32_t unit;
  ASSERT_TRUE(detector.take_probe([](uint32_t u) { return u == 3; }, unit));
  EXPECT_EQ(unit, 2u);
  ASSERT_TRUE(detector.take_probe(kNothingSettled, unit));
  EXPECT_EQ(unit, 1u);
  ASSERT_TRUE(detector.take_probe(kNothingSettled, unit));
  EXPECT_FALSE(detector.take_probe(kNothingSettled, unit));
  EXPECT_TRUE(detector.empty());
}

TEST(LossDetector, LoseAll_EverythingMissingOldestFirst) {
  LossDetector detector;
  for (uint32_t unit = 0; unit < 10; ++unit) detector.on_sent(unit, 1);
  std::vector<uint32_t> lost;
  detector.lose_all([](uint32_t u) { return u % 2 == 0; }, [&](uint32_t u) { lost.push_back(u); });
  EXPECT_EQ(lost, (std::vector<uint32_t>{1, 3, 5, 7, 9}));
  EXPECT_TRUE(detector.empty());
}

TEST(LossDetector, Reset_ForgetsArrivals) {
  LossDetector detector;
  detector.on_sent(0, 1000);
  detector.on_arrived(0);
  detector.reset();
  detector.on_sent(1, 5);
  EXPECT_EQ(detected(detector, 1), (std::vector<uint32_t>{}));
}

// The same rules on a plain vector: no ring, no early exit.
class DumbDetector {
 public:
  void on_sent(uint32_t unit, TimeNs now) { sent_.push_back({unit, now}); }
  void on_arrived(uint32_t unit) {
    for (const auto& [u, when] : sent_) {
      if (u == unit) newest_ = std::max(newest_, when);
    }
  }
  std::vector<uint32_t> detect(DurationNs window, const std::set<uint32_t>& settled) {
    std::vector<uint32_t> lost;
    std::vector<std::pair<uint32_t, TimeNs>> left;
    for (const auto& [unit, when] : sent_) {
      if (settled.count(unit) > 0) continue;
      if (when + window < newest_) {
        lost.push_back(unit);
      } else {
        left.emplace_back(unit, when);
      }
    }
    sent_ = left;
    return lost;
  }
  std::optional<uint32_t> take_probe(const std::set<uint32_t>& settled) {
    while (!sent_.empty()) {
      const uint32_t unit = sent_.back().first;
      sent_.pop_back();
      if (settled.count(unit) == 0) return unit;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::pair<uint32_t, TimeNs>> sent_;
  TimeNs newest_ = 0;
};

// Used as a call uses it: a unit is in flight at most once, and goes again only when it was lost.
TEST(LossDetector, RandomCalls_AgreeWithDumbTwin) {
  Rng rng(1);
  LossDetector detector;
  for (int call = 0; call < 300; ++call) {
    detector.reset();
    DumbDetector twin;
    std::set<uint32_t> settled;
    std::set<uint32_t> in_flight;
    std::vector<uint32_t> lost;
    uint32_t next_unit = 0;
    TimeNs now = 1;
    const auto took = [&](const std::vector<uint32_t>& units) {
      for (const uint32_t unit : units) {
        ASSERT_EQ(in_flight.erase(unit), 1u);
        lost.push_back(unit);
      }
    };
    for (int step = 0; step < 300; ++step) {
      now += static_cast<TimeNs>(rng.below(20));
      const uint64_t action = rng.below(10);
      if (action < 4) {
        uint32_t unit = next_unit;
        if (!lost.empty()) {
          unit = lost.back();
          lost.pop_back();
        } else {
          ++next_unit;
        }
        if (settled.count(unit) > 0) continue;
        // New units go in trains.
        uint32_t count = 1;
        if (unit + 1 == next_unit) count += static_cast<uint32_t>(rng.below(6));
        next_unit = std::max(next_unit, unit + count);
        detector.on_sent(unit, count, now);
        for (; count > 0; --count, ++unit) {
          twin.on_sent(unit, now);
          in_flight.insert(unit);
        }
      } else if (action < 7 && !in_flight.empty()) {
        auto chosen = in_flight.begin();
        std::advance(chosen, rng.below(std::min<size_t>(in_flight.size(), 5)));
        const uint32_t first = *chosen;
        uint32_t end = first;
        for (uint64_t count = 1 + rng.below(8); count > 0 && in_flight.erase(end) > 0; --count, ++end) {
          twin.on_arrived(end);
          settled.insert(end);
        }
        detector.on_arrived(first, end);
      } else if (action < 9) {
        const auto window = static_cast<DurationNs>(rng.below(60));
        const std::vector<uint32_t> units = detected(detector, window, settled);
        ASSERT_EQ(units, twin.detect(window, settled));
        took(units);
      } else {
        uint32_t unit;
        const bool any = detector.take_probe([&](uint32_t u) { return settled.count(u) > 0; }, unit);
        const auto expected = twin.take_probe(settled);
        ASSERT_EQ(any, expected.has_value());
        if (any) {
          ASSERT_EQ(unit, *expected);
          took({unit});
        }
      }
    }
  }
}

}  // namespace
}  // namespace skua::rpc
