#include "kvstore/log/posix_device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/kvstore/log/log_testing.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PosixDeviceTest : public ::testing::TestWithParam<LogIo> {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "skua-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    auto device = open_posix_device(directory_ + "/log", {.io = GetParam()});
    if (GetParam() == LogIo::kIoUring && absl::IsFailedPrecondition(device.status())) {
      GTEST_SKIP() << device.status();
    }
    device_ = *std::move(device);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
  std::unique_ptr<Device> device_;
};

TEST_P(PosixDeviceTest, Create_WriteReadRenameRemove) {
  for (const auto fill : {Device::Fill::kReserve, Device::Fill::kZeros}) {
    auto file = device_->create("a", 4 * kPageBytes, fill).value();
    EXPECT_EQ(file->size(), 4 * kPageBytes);
    const std::vector<std::byte> page(kPageBytes, std::byte{7});
    EXPECT_TRUE(file->write(kPageBytes, page, WriteMode::kDurable).ok());
    EXPECT_TRUE(file->write(2 * kPageBytes, page, WriteMode::kBuffered).ok());
    EXPECT_TRUE(file->sync().ok());
    EXPECT_TRUE(device_->rename("a", "b").ok());
    EXPECT_THAT(*device_->list(), ElementsAre("b"));
    auto again = device_->open("b").value();
    again->drop_cache();
    std::vector<std::byte> all(5 * kPageBytes);
    EXPECT_EQ(*again->read(0, all), 4 * kPageBytes);
    EXPECT_EQ(all[0], std::byte{0});
    EXPECT_EQ(all[kPageBytes], std::byte{7});
    EXPECT_EQ(all[3 * kPageBytes - 1], std::byte{7});
    EXPECT_EQ(all[3 * kPageBytes], std::byte{0});
    EXPECT_TRUE(device_->remove("b").ok());
  }
}

TEST_P(PosixDeviceTest, Errors_NameThePath) {
  const absl::Status missing = device_->open("none").status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr(directory_ + "/log/none"));
  EXPECT_TRUE(absl::IsNotFound(device_->remove("none")));
  EXPECT_TRUE(absl::IsNotFound(device_->rename("none", "b")));
  EXPECT_TRUE(absl::IsNotFound(open_posix_device(directory_ + "/x/y").status()));
}

TEST_P(PosixDeviceTest, Create_WhenNoMoreFilesMayBeOpenIsAShortage) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(free, 0);
  ::close(free);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(free), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status refused = device_->create("a", kPageBytes, Device::Fill::kReserve).status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(device_->create("a", kPageBytes, Device::Fill::kReserve).ok());
}

TEST_P(PosixDeviceTest, Log_OnIt) {
  {
    auto log = testing::open_log(*device_, testing::small_options());
    ASSERT_TRUE(log->start_shard(1, 0, 1, 0).ok());
    for (uint64_t index = 1; index <= 100; ++index) {
      ASSERT_TRUE(testing::append(*log, 1, index, std::string(3000, 'x')).ok());
      ASSERT_TRUE(log->commit().ok());
      log->set_durable(1, index - 1);
      ASSERT_TRUE(log->recycle().ok());
    }
    ASSERT_TRUE(log->close().ok());
  }
  auto recovery = testing::scan(*device_);
  EXPECT_TRUE(recovery->tail().closed);
  EXPECT_EQ(testing::replayed(*recovery, {{1, 99}}).size(), 1U);
}

TEST_P(PosixDeviceTest, Write_DurableAndBufferedOnesOfAPageAndMemoryThatIsNotAligned) {
  auto file = device_->create("a", 4 * kPageBytes, Device::Fill::kZeros).value();
  std::vector<std::byte> bytes(2 * kPageBytes + 8);
  const ByteSpan aligned(bytes.data(), kSectorBytes);
  const ByteSpan unaligned = ByteSpan(bytes).subspan(8, kSectorBytes);
  for (int i = 0; i < 4; ++i) {
    std::ranges::fill(bytes, static_cast<std::byte>(i + 1));
    const auto mode = i % 2 == 0 ? WriteMode::kBuffered : WriteMode::kDurable;
    ASSERT_TRUE(file->write(uint64_t(i) * kSectorBytes, i < 2 ? aligned : unaligned, mode).ok());
  }
  auto* const page = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kPageBytes));
  std::ranges::fill(std::span(page, kPageBytes), std::byte{9});
  EXPECT_TRUE(file->write(kPageBytes, {page, kPageBytes}, WriteMode::kDurable).ok());
  std::free(page);
  std::vector<std::byte> all(4 * kPageBytes);
  for (const bool cached : {true, false}) {
    if (!cached) file->drop_cache();
    ASSERT_EQ(*file->read(0, all), all.size());
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(all[i * kSectorBytes], static_cast<std::byte>(i + 1));
      EXPECT_EQ(all[(i + 1) * kSectorBytes - 1], static_cast<std::byte>(i + 1));
    }
    EXPECT_EQ(all[4 * kSectorBytes], std::byte{0});
    EXPECT_EQ(all[kPageBytes], std::byte{9});
    EXPECT_EQ(all[2 * kPageBytes - 1], std::byte{9});
    EXPECT_EQ(all[2 * kPageBytes], std::byte{0});
  }
}

const char* name_of(LogIo io) {
  switch (io) {
    case LogIo::kAuto: return "Direct";
    case LogIo::kPwritev2: return "Pwritev2";
    case LogIo::kFdatasync: return "Fdatasync";
    case LogIo::kIoUring: return "IoUring";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Writes, PosixDeviceTest,
                         ::testing::Values(LogIo::kAuto, LogIo::kPwritev2, LogIo::kFdatasync, LogIo::kIoUring),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace skua::kv
