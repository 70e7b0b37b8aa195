#include "app/transport_options.h"

#include <gtest/gtest.h>

namespace skua::app {
namespace {

TEST(TransportOptions, DpdkSettingsOfEveryType) {
  rpc::DpdkSettings settings;
  Program program({.name = "p", .summary = "s"});
  add_dpdk_options(program, &settings);
  const ParseOutcome outcome = program.parse(
      {"--dpdk-devices", "net_ring0", "--dpdk-udp-port=18700", "--dpdk-huge-pages=false"}, {{"SKUA_DPDK_MTU", "1500"}});
  ASSERT_TRUE(outcome.go_on) << outcome.err;
  EXPECT_EQ(settings.devices, "net_ring0");
  EXPECT_EQ(settings.udp_port, 18'700);
  EXPECT_FALSE(settings.huge_pages);
  EXPECT_EQ(settings.mtu, 1500);
}

TEST(TransportOptions, DefaultsAreWhatTheSettingsHold) {
  rpc::DpdkSettings settings;
  settings.udp_port = 0;
  Program program({.name = "p", .summary = "s"});
  add_dpdk_options(program, &settings);
  ASSERT_TRUE(program.parse({}, {}).go_on);
  EXPECT_EQ(settings.udp_port, 0);
}

TEST(TransportOptions, DpdkIntegersHaveTheirTypesRange) {
  rpc::DpdkSettings settings;
  Program program({.name = "p", .summary = "s"});
  add_dpdk_options(program, &settings);
  EXPECT_FALSE(program.parse({"--dpdk-mtu", "70000"}, {}).go_on);
}

}  // namespace
}  // namespace skua::app
