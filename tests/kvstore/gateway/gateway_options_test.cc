#include "kvstore/gateway/gateway_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::kv::gateway {
namespace {

using ::testing::HasSubstr;

absl::Status status_with_databases(const std::vector<std::string>& databases) {
  ProgramOptions options;
  options.databases = databases;
  return gateway_options(options).status();
}

TEST(GatewayOptions, EachDatabaseIsAnotherTable) {
  EXPECT_TRUE(status_with_databases({"0=cache", "1=users"}).ok());
  EXPECT_THAT(status_with_databases({"0=cache", "0=users"}).message(), HasSubstr("names database 0 twice"));
  EXPECT_THAT(status_with_databases({"0=cache", "1=cache"}).message(), HasSubstr("names table cache twice"));
}

ProgramOptions with_memcached(const std::string& resp, const std::string& memcached) {
  ProgramOptions options;
  options.databases = {"3=users", "0=cache"};
  options.listen_address = resp;
  options.memcached_address = memcached;
  return options;
}

TEST(GatewayOptions, EachProtocolMayBeLeftOut_NotBoth) {
  const auto resp = gateway_options(with_memcached("127.0.0.1:6379", ""));
  ASSERT_TRUE(resp.ok());
  ASSERT_EQ(resp->entrances.size(), 1U);
  EXPECT_EQ(resp->entrances[0].protocol, ClientProtocol::kResp);
  EXPECT_EQ(resp->entrances[0].port, 6379);
  ProgramOptions options = with_memcached("", "127.0.0.1:11211");
  options.memcached_database = 3;
  const auto memcached = gateway_options(options);
  ASSERT_TRUE(memcached.ok());
  ASSERT_EQ(memcached->entrances.size(), 1U);
  EXPECT_EQ(memcached->entrances[0].protocol, ClientProtocol::kMemcached);
  EXPECT_EQ(memcached->entrances[0].database, 3U);
  const auto both = gateway_options(with_memcached("127.0.0.1:6379", "127.0.0.1:11211"));
  ASSERT_TRUE(both.ok());
  ASSERT_EQ(both->entrances.size(), 2U);
  EXPECT_EQ(both->entrances[1].database, 0U) << "the lowest number";
  EXPECT_THAT(gateway_options(with_memcached("", "")).status().message(), HasSubstr("--memcached-address, or both"));
}

TEST(GatewayOptions, OfMemcached) {
  ProgramOptions options = with_memcached("", "127.0.0.1:11211");
  options.memcached_database = 1;
  EXPECT_THAT(gateway_options(options).status().message(), HasSubstr("--memcached-database is 1"));
  options = with_memcached("127.0.0.1:6379", "0.0.0.0:11211");
  EXPECT_THAT(gateway_options(options).status().message(),
              HasSubstr("--memcached-address 0.0.0.0:11211 can be reached"));
  EXPECT_EQ(exposure_warning(with_memcached("127.0.0.1:6379", "127.0.0.1:11211")), "");
  options.allows_everybody = true;
  EXPECT_TRUE(gateway_options(options).ok());
  EXPECT_THAT(exposure_warning(options), HasSubstr("--memcached-address 0.0.0.0:11211"));
}

}  // namespace
}  // namespace skua::kv::gateway
