#include "control/server/arrival_limit.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>

namespace skua::control {
namespace {

Network network(const char* ip) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, ip, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
  } else if (inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
  }
  return network_of(address);
}

Network numbered(uint32_t number) {
  Network made{};
  std::memcpy(made.data(), &number, sizeof number);
  return made;
}

TEST(NetworkOf, IsTheAddressOrTheFirstHalfOfIPv6) {
  EXPECT_NE(network("10.0.0.7"), network("10.0.0.8"));
  EXPECT_EQ(network("10.0.0.7"), network("::ffff:10.0.0.7"));
  EXPECT_EQ(network("2001:db8:0:1::7"), network("2001:db8:0:1:ff::8"));
  EXPECT_NE(network("2001:db8:0:1::7"), network("2001:db8:0:2::7"));
}

TEST(NetworkText, IsTheAddressOrTheNetwork) {
  EXPECT_EQ(network_text(network("10.0.0.7")), "10.0.0.7");
  EXPECT_EQ(network_text(network("::ffff:10.0.0.7")), "10.0.0.7");
  EXPECT_EQ(network_text(network("2001:db8:0:1::7")), "2001:db8:0:1::/64");
}

TEST(ArrivalLimit, ANetworkMayBeginSoManyAtOnce_AndSoManyASecond) {
  ArrivalLimit limit;
  const auto admitted = [&](TimeNs now) {
    int count = 0;
    while (limit.admit(numbered(1), now)) ++count;
    return count;
  };
  EXPECT_EQ(admitted(0), kArrivalsAtOnce);
  EXPECT_TRUE(limit.admit(numbered(2), 0)) << "another network's";
  EXPECT_EQ(admitted(kSecond), kArrivalsPerSecond);
  EXPECT_EQ(admitted(3600 * kSecond), kArrivalsAtOnce);
}

TEST(ArrivalLimit, NetworksBeyondANumberShareABucket_UntilOthersAreForgotten) {
  ArrivalLimit limit;
  for (uint32_t i = 0; i < kArrivalSourcesMax; ++i) EXPECT_TRUE(limit.admit(numbered(i), 0));
  int count = 0;
  for (uint32_t i = 0; i < 2 * kArrivalsAtOnce; ++i) count += limit.admit(numbered(100'000 + i), 0) ? 1 : 0;
  EXPECT_EQ(count, kArrivalsAtOnce);
  EXPECT_TRUE(limit.admit(numbered(5), 0)) << "who is known has its own";
  EXPECT_TRUE(limit.admit(numbered(100'000), kSecond)) << "by then the others' buckets are full again";
}

}  // namespace
}  // namespace skua::control
