#include "rpc/transport/dpdk/dpdk_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skua::rpc {
namespace {

using ::testing::HasSubstr;

DpdkSettings usual() {
  DpdkSettings settings;
  settings.devices = "net_null0";
  settings.addresses = "10.77.0.1/24";
  return settings;
}

TEST(DpdkSettings, MtuIsOfAnIpPacketThatDevicesCarry) {
  DpdkSettings settings = usual();
  for (const uint16_t mtu : {uint16_t{0}, kDpdkMtuMin, uint16_t{1500}, kDpdkMtuMax}) {
    settings.mtu = mtu;
    ASSERT_TRUE(settings.to_options(1).ok()) << mtu;
    EXPECT_EQ(settings.to_options(1)->mtu, mtu);
  }
  for (const int mtu : {1, kDpdkMtuMin - 1, kDpdkMtuMax + 1, 65'535}) {
    settings.mtu = static_cast<uint16_t>(mtu);
    const absl::Status status = settings.to_options(1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << mtu;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--dpdk-mtu must be 576 to 9216")) << mtu;
  }
}

}  // namespace
}  // namespace skua::rpc
