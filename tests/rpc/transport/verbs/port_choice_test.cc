#include "rpc/transport/verbs/port_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skua::rpc::verbs {
namespace {

using ::testing::HasSubstr;

GidInfo entry(uint32_t index, Network network, const char* text) {
  return {index, network, Gid::parse(text).value()};
}

PortInfo ethernet(const char* device, uint8_t port, const char* ip, bool active = true) {
  PortInfo out;
  out.device = device;
  out.port = port;
  out.active = active;
  out.state = active ? "active" : "down";
  out.mtu_bytes = 4096;
  out.gids = {entry(0, Network::kRoceV1, "fe80::1"), entry(1, Network::kRoceV2, "fe80::1"),
              entry(2, Network::kRoceV1, ip), entry(3, Network::kRoceV2, ip)};
  return out;
}

std::vector<PortInfo> machine() {
  return {ethernet("mlx5_0", 1, "10.1.0.1", false), ethernet("mlx5_0", 2, "10.2.0.1"),
          ethernet("mlx5_1", 1, "10.3.0.1")};
}

std::string refusal(const std::vector<PortInfo>& ports, const PortWish& wish,
                    absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
  const auto choice = choose_port(ports, wish);
  EXPECT_EQ(choice.status().code(), code);
  return std::string(choice.status().message());
}

/// Of what may come by itself while a machine starts.
std::string refusal_for_now(const std::vector<PortInfo>& ports, const PortWish& wish) {
  return refusal(ports, wish, absl::StatusCode::kUnavailable);
}

TEST(PortChoice, NoWish_TakesTheFirstActivePort) {
  const PortChoice choice = choose_port(machine(), {}).value();
  EXPECT_EQ(choice.port.device, "mlx5_0");
  EXPECT_EQ(choice.port.port, 2);
  EXPECT_EQ(choice.gid.index, 3u);
}

TEST(PortChoice, ByNamePortAndAddress) {
  EXPECT_EQ(choose_port(machine(), {"mlx5_1"})->port.device, "mlx5_1");
  EXPECT_EQ(choose_port(machine(), {"mlx5_0"})->port.port, 2) << "its first active port";
  EXPECT_EQ(choose_port(machine(), {"mlx5_0:2"})->port.port, 2);
  const PortChoice by_ip = choose_port(machine(), {"10.3.0.1"}).value();
  EXPECT_EQ(by_ip.port.device, "mlx5_1");
  EXPECT_EQ(by_ip.gid.index, 3u) << "RoCE v2 of that address";
  EXPECT_EQ(choose_port({ethernet("a:b", 1, "10.0.0.1")}, {"a:b"})->port.device, "a:b");
}

TEST(PortChoice, Gid_PrefersIpv4ThenRoutableThenLinkLocalThenInfiniBandThenV1) {
  PortInfo port = ethernet("rxe0", 1, "10.0.0.1");
  port.gids = {entry(0, Network::kRoceV1, "10.0.0.1"), entry(1, Network::kInfiniBand, "fe80::1"),
               entry(2, Network::kRoceV2, "fe80::1"),  entry(3, Network::kRoceV2, "fd00::1"),
               entry(4, Network::kRoceV2, "10.0.0.1"), entry(5, Network::kRoceV2, "10.0.0.2")};
  for (const uint32_t expected : {4u, 3u, 2u, 1u, 0u}) {
    EXPECT_EQ(choose_port({port}, {})->gid.index, expected);
    std::erase_if(port.gids, [&](const GidInfo& gid) { return gid.index == expected || gid.index == 5; });
  }
}

TEST(PortChoice, Gid_ByIndex) {
  EXPECT_EQ(choose_port(machine(), {"mlx5_1", 0})->gid.network, Network::kRoceV1);
  EXPECT_THAT(refusal_for_now(machine(), {"mlx5_1", 9}), HasSubstr("GID 9"));
}

TEST(PortChoice, Refusals_SayWhatWasSoughtAndFound) {
  EXPECT_THAT(refusal({}, {}), HasSubstr("rdma link add"));
  const std::string none_fits = refusal(machine(), {"mlx4_0"});
  EXPECT_THAT(none_fits, HasSubstr("\"mlx4_0\""));
  EXPECT_THAT(none_fits, HasSubstr("mlx5_0 port 1 (down"));
  EXPECT_THAT(none_fits, HasSubstr("3: 10.3.0.1 RoCE v2"));
  const std::string down = refusal_for_now(machine(), {"mlx5_0:1"});
  EXPECT_THAT(down, HasSubstr("no port is active"));
  EXPECT_THAT(down, HasSubstr("cable"));
  PortInfo bare = ethernet("rxe0", 1, "10.0.0.1");
  bare.gids.clear();
  EXPECT_THAT(refusal_for_now({bare}, {}), HasSubstr("IP address"));
  EXPECT_THAT(refusal_for_now(machine(), {"10.9.9.9"}), HasSubstr("10.9.9.9"));
}

}  // namespace
}  // namespace skua::rpc::verbs
