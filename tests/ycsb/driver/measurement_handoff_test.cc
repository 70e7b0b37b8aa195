#include "ycsb/driver/measurement_handoff.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace skua::ycsb {
namespace {

MeasurementOptions default_options() {
  return *MeasurementOptions::parse(Properties(), false);
}

uint64_t reads(const Measurements& m) {
  uint64_t count = 0;
  m.for_each([&](const std::string&, const Series& s) { count += s.latencies().count(); });
  return count;
}

TEST(MeasurementHandoff, Collect_OnlyWhatWasAskedForAndServed) {
  const auto options = default_options();
  MeasurementHandoff handoff(options);
  uint64_t seen = 0;
  const auto take = [&](const Measurements& m) { seen += reads(m); };
  handoff.active().record(Metric::kRead, Status::kOk, 1, 1, 0);
  handoff.serve();
  EXPECT_FALSE(handoff.collect(take));
  handoff.ask();
  EXPECT_FALSE(handoff.collect(take));
  handoff.serve();
  EXPECT_EQ(reads(handoff.active()), 0U);
  EXPECT_TRUE(handoff.collect(take));
  EXPECT_EQ(seen, 1U);
  EXPECT_FALSE(handoff.collect(take));
}

TEST(MeasurementHandoff, TwoThreads_EveryRecordArrivesOnce) {
  const auto options = default_options();
  MeasurementHandoff handoff(options);
  constexpr uint64_t kRecords = 200'000;
  std::atomic<bool> done{false};
  std::thread driver([&] {
    for (uint64_t i = 0; i < kRecords; ++i) {
      handoff.serve();
      handoff.active().record(Metric::kRead, Status::kOk, 1, 1, 0);
    }
    done = true;
  });
  uint64_t seen = 0;
  while (!done) {
    handoff.ask();
    handoff.collect([&](const Measurements& m) { seen += reads(m); });
  }
  driver.join();
  handoff.collect([&](const Measurements& m) { seen += reads(m); });
  EXPECT_EQ(seen + reads(handoff.active()), kRecords);
}

}  // namespace
}  // namespace skua::ycsb
