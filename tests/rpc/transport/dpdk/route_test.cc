#include "rpc/transport/dpdk/route.h"

#include <gtest/gtest.h>

#include <vector>

namespace skua::rpc::dpdk {
namespace {

constexpr MacAddress kPeerMac = {2, 0, 0, 0, 0, 7};
constexpr MacAddress kGateway = {2, 0, 0, 0, 0, 9};

LocalInterface ours(const char* cidr, bool with_gateway = false) {
  LocalInterface out;
  out.address = InterfaceAddress::parse(cidr).value();
  if (with_gateway) out.gateway = kGateway;
  return out;
}

InterfaceAddress peer(const char* cidr) {
  InterfaceAddress out = InterfaceAddress::parse(cidr).value();
  out.mac = kPeerMac;
  return out;
}

TEST(DpdkRoute, SameNetwork_IsPreferredToAGateway) {
  const std::vector<LocalInterface> from = {ours("10.1.0.1/24", true), ours("10.2.0.1/24")};
  const std::vector<InterfaceAddress> to = {peer("10.3.0.2/24"), peer("10.2.0.2/24")};
  const std::optional<Route> route = route_to(from, to);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->from, 1u);
  EXPECT_EQ(route->to, to[1]);
  EXPECT_EQ(route->next_hop, kPeerMac);
}

TEST(DpdkRoute, OtherNetwork_GoesByTheGatewayOfTheFamily) {
  const std::vector<LocalInterface> from = {ours("fd00::1/64", true), ours("10.1.0.1/24"), ours("10.2.0.1/24", true)};
  const std::vector<InterfaceAddress> to = {peer("10.3.0.2/24")};
  const std::optional<Route> route = route_to(from, to);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->from, 2u);
  EXPECT_EQ(route->to, to[0]);
  EXPECT_EQ(route->next_hop, kGateway);
}

TEST(DpdkRoute, NoNetworkAndNoGateway_NoRoute) {
  const std::vector<LocalInterface> from = {ours("10.1.0.1/24"), ours("fd00::1/64", true)};
  const std::vector<InterfaceAddress> to = {peer("10.3.0.2/24")};
  EXPECT_FALSE(route_to(from, to).has_value());
  EXPECT_FALSE(route_to({}, to).has_value());
  EXPECT_FALSE(route_to(from, {}).has_value());
}

}  // namespace
}  // namespace skua::rpc::dpdk
