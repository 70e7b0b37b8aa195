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

}  // namespace
}  // namespace skua::kv::gateway
