#include "kvstore/node/disk_sizes.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

TEST(DiskSizes, SizesForDisk_LargeOnesHaveTheUsualSizes) {
  for (const uint64_t gibibytes : {4U, 64U, 4096U}) {
    const DiskSizes sizes = sizes_for_disk(gibibytes << 30, 2);
    EXPECT_EQ(sizes.log_segment_bytes, 64 * kMebibyte);
    EXPECT_EQ(sizes.reserve_bytes, 512 * kMebibyte);
  }
}

TEST(DiskSizes, SizesForDisk_SmallOnesHaveRoomForAWindowOfSegments) {
  EXPECT_EQ(sizes_for_disk(64 * kMebibyte, 1).log_segment_bytes, 2 * kMebibyte);
  for (const uint64_t mebibytes : {64U, 100U, 500U, 1000U, 3000U}) {
    for (const uint32_t workers : {1U, 2U, 4U}) {
      const DiskSizes sizes = sizes_for_disk(mebibytes * kMebibyte, workers);
      EXPECT_EQ(sizes.log_segment_bytes % kMebibyte, 0U);
      EXPECT_LE(10 * workers * sizes.log_segment_bytes + sizes.reserve_bytes, mebibytes * kMebibyte);
    }
  }
}

TEST(DiskSizes, SizesForDisk_NeverNothing) {
  EXPECT_EQ(sizes_for_disk(0, 0).log_segment_bytes, kLogSegmentBytesMin);
}

TEST(CheckDisk, RefusesWhatCannotWorkAndNamesTheOption) {
  const auto why = [](uint64_t disk_mebibytes, uint32_t workers, const DiskSizes& sizes) {
    return check_disk("/data", disk_mebibytes * kMebibyte, workers, sizes).ToString();
  };
  EXPECT_EQ(why(1000, 1, {.log_segment_bytes = 64 * kMebibyte, .reserve_bytes = 512 * kMebibyte}), "OK");
  const std::string large = why(1000, 1, {.log_segment_bytes = 400 * kMebibyte, .reserve_bytes = 1});
  for (const char* word : {"--log-segment", "/data", "1000 MiB", "3 files of 400 MiB"}) {
    EXPECT_NE(large.find(word), std::string::npos) << large;
  }
  EXPECT_NE(why(500, 256, sizes_for_disk(500 * kMebibyte, 256)).find("fewer --workers"), std::string::npos);
  EXPECT_NE(why(1000, 1, {.log_segment_bytes = 1, .reserve_bytes = 1000 * kMebibyte}).find("--disk-reserve"),
            std::string::npos);
}

}  // namespace
}  // namespace skua::kv
