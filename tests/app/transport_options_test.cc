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

TEST(TransportOptions, FlagsOfAnotherTransportAreRefused) {
  rpc::DpdkSettings dpdk;
  rpc::VerbsSettings verbs;
  Program program({.name = "p", .summary = "s"});
  add_dpdk_options(program, &dpdk);
  add_verbs_options(program, &verbs);
  Command& inner = program.add_command("inner", "I");
  inner.action([] { return 0; });
  ASSERT_TRUE(program.parse({"inner", "--verbs-device", "mlx5_0"}, {{"SKUA_DPDK_MTU", "1500"}}).go_on);
  EXPECT_TRUE(check_transport_flags(inner, "verbs").ok());
  EXPECT_EQ(check_transport_flags(inner, "tcp").message(), "--verbs-device is for --transport verbs, and this is tcp");
}

TEST(TransportOptions, DpdkDevicesAndAddressesAreCounted) {
  rpc::DpdkSettings settings;
  settings.devices = "net_ring0";
  EXPECT_EQ(settings.to_options(1).status().message(),
            "--dpdk-devices names 1 device, --dpdk-addresses 0 addresses: give one like 10.77.0.1/24 for each, with ; "
            "between them");
}

TEST(TransportOptions, VerbsSettingsOfEveryType) {
  rpc::VerbsSettings settings;
  Program program({.name = "p", .summary = "s"});
  add_verbs_options(program, &settings);
  const ParseOutcome outcome =
      program.parse({"--verbs-device", "mlx5_0:2", "--verbs-gid-index=3", "--verbs-mtu", "1024"},
                    {{"SKUA_VERBS_TRAFFIC_CLASS", "106"}});
  ASSERT_TRUE(outcome.go_on) << outcome.err;
  EXPECT_EQ(settings.device, "mlx5_0:2");
  EXPECT_EQ(settings.gid_index, 3);
  EXPECT_EQ(settings.mtu, 1024u);
  EXPECT_EQ(settings.traffic_class, 106);
}

TEST(TransportOptions, TrafficSettings) {
  rpc::TrafficSettings settings;
  Program program({.name = "p", .summary = "s"});
  add_traffic_options(program, &settings);
  const ParseOutcome outcome =
      program.parse({"--congestion=timely", "--queue-target", "20us", "--link-gigabits-per-s=25", "--path-delay",
                     "40us", "--receive-budget", "64KiB"},
                    {});
  ASSERT_TRUE(outcome.go_on) << outcome.err;
  EXPECT_EQ(settings.congestion, rpc::CongestionControl::kTimely);
  EXPECT_EQ(settings.queue_target_ns, 20 * kMicrosecond);
  EXPECT_EQ(settings.link_gigabits_per_s, 25u);
  EXPECT_EQ(settings.path_delay_ns, 40 * kMicrosecond);
  EXPECT_EQ(settings.receive_budget_bytes, 65'536u);
}

TEST(TransportOptions, TrafficOptionsRefuseWhatTheSettingsDo) {
  for (const char* argument :
       {"--queue-target=0", "--path-delay=2s", "--link-gigabits-per-s=10001", "--congestion=x"}) {
    rpc::TrafficSettings settings;
    Program program({.name = "p", .summary = "s"});
    add_traffic_options(program, &settings);
    EXPECT_FALSE(program.parse({argument}, {}).go_on) << argument;
  }
}

TEST(TransportOptions, DpdkIsLocal_OnlyWithoutANetwork) {
  rpc::DpdkSettings settings;
  for (const char* devices : {"net_memif0,role=server,socket=/run/a.sock", "net_ring0", "net_null0;net_memif1"}) {
    settings.devices = devices;
    EXPECT_TRUE(settings.is_local()) << devices;
  }
  for (const char* devices : {"0000:3b:00.0", "net_af_packet0,iface=eth0", "net_tap0", "net_memif0;0000:3b:00.0"}) {
    settings.devices = devices;
    EXPECT_FALSE(settings.is_local()) << devices;
  }
}

}  // namespace
}  // namespace skua::app
