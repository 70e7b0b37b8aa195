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
  options.tables = databases;
  return gateway_options(options).status();
}

TEST(GatewayOptions, EachDatabaseIsAnotherTable) {
  EXPECT_TRUE(status_with_databases({"0=cache", "1=users"}).ok());
  EXPECT_THAT(status_with_databases({"0=cache", "0=users"}).message(), HasSubstr("names database 0 twice"));
  EXPECT_THAT(status_with_databases({"0=cache", "1=cache"}).message(), HasSubstr("names table cache twice"));
}

ProgramOptions with_memcached(const std::string& resp, const std::string& memcached) {
  ProgramOptions options;
  options.tables = {"3=users", "0=cache"};
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
  EXPECT_FALSE(resp->allows_flush);
  ProgramOptions options = with_memcached("", "127.0.0.1:11211");
  options.memcached_database = 3;
  options.allows_flush = true;
  const auto memcached = gateway_options(options);
  ASSERT_TRUE(memcached.ok());
  ASSERT_EQ(memcached->entrances.size(), 1U);
  EXPECT_EQ(memcached->entrances[0].protocol, ClientProtocol::kMemcached);
  EXPECT_EQ(memcached->entrances[0].database, 3U);
  EXPECT_TRUE(memcached->allows_flush);
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

ProgramOptions open_to_others() {
  ProgramOptions options = with_memcached("0.0.0.0:6379", "");
  options.client_security.tls = {.certificate = "c", .key = "k"};
  return options;
}

TEST(GatewayOptions, OthersGetInIfTheyAreEncryptedAndKnown) {
  ProgramOptions options = with_memcached("0.0.0.0:6379", "");
  EXPECT_THAT(gateway_options(options).status().message(),
              HasSubstr("give --client-tls-cert and --client-tls-key, with --users-file or --client-tls-ca"));
  options = open_to_others();
  EXPECT_THAT(gateway_options(options).status().message(), HasSubstr("give --users-file, or --client-tls-ca, so that"));
  options.client_security.users = "u";
  EXPECT_TRUE(gateway_options(options).ok());
  EXPECT_EQ(exposure_warning(options), "");
  options = open_to_others();
  options.client_security.tls.authorities = "a";
  EXPECT_TRUE(gateway_options(options).ok());
  EXPECT_EQ(gateway_options(options)->client_security.tls, options.client_security.tls);
  options = open_to_others();
  options.allows_everybody = true;
  EXPECT_TRUE(gateway_options(options).ok());
  EXPECT_THAT(exposure_warning(options), HasSubstr("security is off"));
}

TEST(GatewayOptions, PasswordsDoNotGoToOthersInPlain) {
  ProgramOptions options = with_memcached("127.0.0.1:6379", "0.0.0.0:11211");
  options.client_security.users = "u";
  options.allows_everybody = true;
  EXPECT_THAT(gateway_options(options).status().message(), HasSubstr("passwords would go there in plain"));
  options.memcached_address = "127.0.0.1:11211";
  EXPECT_TRUE(gateway_options(options).ok());
}

TEST(GatewayOptions, CertificateAndKeyGoTogether) {
  for (const TlsFiles& files : {TlsFiles{.certificate = "c"}, TlsFiles{.key = "k"}, TlsFiles{.authorities = "a"},
                                TlsFiles{.certificate = "c", .authorities = "a"}}) {
    ProgramOptions options = with_memcached("127.0.0.1:6379", "");
    options.client_security.tls = files;
    EXPECT_THAT(gateway_options(options).status().message(), HasSubstr("go together"));
  }
}

}  // namespace
}  // namespace skua::kv::gateway
