#include "kvstore/node/machine_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace skua::kv
