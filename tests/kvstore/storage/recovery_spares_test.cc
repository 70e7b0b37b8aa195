#include <gtest/gtest.h>

#include "kvstore/log/posix_device.h"
#include "kvstore/log/segment.h"
#include "kvstore/storage/recovery.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

TEST(GiveUpSpares, RemovesTheSparesAndNothingElse) {
  const testing::TemporaryDirectory directory;
  const auto device = open_posix_device(directory.path(), {});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const std::string& name : {segment_name(1), spare_name(1), spare_name(2)}) {
    ASSERT_TRUE((*device)->create(name, kPageBytes, Device::Fill::kZeros).ok());
  }
  EXPECT_EQ(*give_up_spares(**device), 2u);
  EXPECT_EQ(*(*device)->list(), std::vector<std::string>{segment_name(1)});
  EXPECT_EQ(*give_up_spares(**device), 0u);
}

}  // namespace
}  // namespace skua::kv
