// Operations of a ClientWorld's client, run to their ends.
#ifndef SKUA_TESTS_KVSTORE_CLIENT_CLIENT_CALLS_TESTING_H_
#define SKUA_TESTS_KVSTORE_CLIENT_CLIENT_CALLS_TESTING_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv::testing {

inline std::string text(const absl::Status& status) {
  return status.ToString();
}

inline GetResult get(ClientWorld& world, std::string_view key, ReadOptions options = {}) {
  Got<GetResult> got;
  EXPECT_TRUE(world.client->get("t", key, options, got.callback()).ok());
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.count, 1);
  return std::move(got.result);
}

inline WriteResult put(ClientWorld& world, std::string_view key, PutValue value, WriteOptions options = {}) {
  Got<WriteResult> got;
  EXPECT_TRUE(world.client->put("t", key, std::move(value), options, got.callback()).ok());
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.count, 1);
  return std::move(got.result);
}

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_CLIENT_CLIENT_CALLS_TESTING_H_
