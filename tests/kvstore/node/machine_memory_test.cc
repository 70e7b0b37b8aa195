#include "kvstore/node/machine_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "kvstore/node/size_text.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMachineGiB = uint64_t{1} << 30;

TEST(CheckFits, NamesTheLimitAndHowMuchThereIs) {
  EXPECT_TRUE(check_fits(UINT64_MAX, {}).ok());
  const MachineMemory machine{
      .physical = 64 * kMachineGiB, .cgroup = 16 * kMachineGiB, .address_space = 12 * kMachineGiB};
  EXPECT_TRUE(check_fits(10 * kMachineGiB, machine).ok());
  const auto why = [&](uint64_t bytes) { return check_fits(bytes, machine).ToString(); };
  EXPECT_THAT(why(65 * kMachineGiB), HasSubstr("this machine has 64 GiB"));
  EXPECT_THAT(why(17 * kMachineGiB), HasSubstr("cgroup that this process runs in may have 16 GiB"));
  EXPECT_THAT(why(12 * kMachineGiB), HasSubstr("ulimit -v"));
  EXPECT_THAT(check_fits(1, {.address_space = kMachineGiB / 2}).ToString(), HasSubstr("512 MiB"));
}

TEST(CgroupMemory, IsTheLeastOnTheWayUp) {
  const testing::TemporaryDirectory root;
  const auto write = [&](const std::string& directory, const std::string& name, const std::string& text) {
    std::filesystem::create_directories(root.path() + directory);
    std::ofstream(root.path() + directory + "/" + name) << text;
  };
  EXPECT_FALSE(cgroup_memory("0::/a/b\n", root.path()).has_value());
  write("/a/b", "memory.max", "max\n");
  EXPECT_FALSE(cgroup_memory("0::/a/b\n", root.path()).has_value());
  write("/a", "memory.max", "1000\n");
  EXPECT_EQ(cgroup_memory("0::/a/b\n", root.path()), 1000u);
  // In a container the own cgroup is often the root.
  write("", "memory.max", "700\n");
  EXPECT_EQ(cgroup_memory("0::/\n", root.path()), 700u);
  write("/memory/c", "memory.limit_in_bytes", "500\n");
  EXPECT_EQ(cgroup_memory("11:cpu:/x\n4:hugetlb,memory:/c\n", root.path()), 500u);
  EXPECT_FALSE(cgroup_memory("4:cpu:/c\nnonsense\n", root.path()).has_value());
}

TEST(MachineMemoryOfThis, IsKnown) {
  EXPECT_GT(machine_memory().physical.value_or(0), 0u);
}

/// The soft limit of files' sizes, until the end of the scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(ProcessLimits, FilesThatMayNotBeLargeAreRefused) {
  {
    const FileSizeLimit small(100 << 20);
    EXPECT_THAT(check_file_size_limit().ToString(), HasSubstr("files may have 100 MiB"));
  }
  const FileSizeLimit tiny(500 << 10);
  EXPECT_THAT(check_file_size_limit().ToString(), HasSubstr("files may have 500 KiB"));
}

TEST(ProcessLimits, SizesAreRoundedDown) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1024), "1 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1023 KiB");
  EXPECT_EQ(size_text(uint64_t{9} << 30), "9216 MiB");
  EXPECT_EQ(size_text(uint64_t{10} << 30), "10 GiB");
  EXPECT_EQ(size_text(UINT64_MAX), "16777215 TiB");
}

}  // namespace
}  // namespace skua::kv
