#include "tests/kvstore/log/sim_device.h"

#include <gtest/gtest.h>

#include <vector>

namespace skua::kv::sim {
namespace {

std::vector<std::byte> filled(size_t bytes, uint8_t with) {
  return std::vector<std::byte>(bytes, std::byte{with});
}

TEST(SimDevice, PowerCutTakesUnsyncedSectorsOnly) {
  bool lost = false;
  bool kept = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimDevice device(seed, 1 << 20);
    auto file = device.create("f", 8 * kSectorBytes, Device::Fill::kZeros).value();
    ASSERT_TRUE(file->write(0, filled(kSectorBytes, 1), WriteMode::kDurable).ok());
    ASSERT_TRUE(file->write(kSectorBytes, filled(7 * kSectorBytes, 2), WriteMode::kBuffered).ok());
    device.restart();
    EXPECT_FALSE(file->sync().ok());
    const ByteSpan contents = device.contents("f");
    EXPECT_EQ(contents[0], std::byte{1});
    for (size_t sector = 1; sector < 8; ++sector) {
      (contents[sector * kSectorBytes] == std::byte{2} ? kept : lost) = true;
    }
  }
  EXPECT_TRUE(lost && kept);
}

TEST(SimDevice, FailedSyncLosesWhatReadsStillShow) {
  SimDevice device(1, 1 << 20);
  auto file = device.create("f", 64 * kSectorBytes, Device::Fill::kZeros).value();
  ASSERT_TRUE(file->write(0, filled(64 * kSectorBytes, 1), WriteMode::kBuffered).ok());
  device.set_faults({.sync_error = 1});
  EXPECT_TRUE(absl::IsInternal(file->sync()));
  device.set_faults({});
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(device.contents("f")[0], std::byte{1});
  file->drop_cache();
  size_t lost = 0;
  for (size_t sector = 0; sector < 64; ++sector) lost += device.contents("f")[sector * kSectorBytes] == std::byte{0};
  EXPECT_GT(lost, 0U);
  EXPECT_LT(lost, 64U);
}

TEST(SimDevice, NoSpaceAndStalls) {
  SimDevice device(1, 4 * kSectorBytes);
  EXPECT_TRUE(absl::IsResourceExhausted(device.create("f", 5 * kSectorBytes, Device::Fill::kZeros).status()));
  device.set_faults({.stall = 1});
  const TimeNs before = device.now_ns();
  EXPECT_TRUE(device.create("f", 4 * kSectorBytes, Device::Fill::kZeros).ok());
  EXPECT_EQ(device.now_ns() - before, SimDeviceFaults().stall_ns);
}

TEST(SimDevice, CrashAtAnOperation) {
  SimDevice device(1, 1 << 20);
  auto file = device.create("f", 8 * kSectorBytes, Device::Fill::kZeros).value();
  device.crash_after(1);
  EXPECT_TRUE(file->write(0, filled(kSectorBytes, 1), WriteMode::kBuffered).ok());
  EXPECT_FALSE(file->sync().ok());
  EXPECT_TRUE(device.crashed());
  EXPECT_FALSE(device.open("f").ok());
  device.restart();
  EXPECT_TRUE(device.open("f").ok());
}

}  // namespace
}  // namespace skua::kv::sim
