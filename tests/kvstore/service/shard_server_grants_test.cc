// Tables with grants: each method of a session is judged by the right of who opened it, as long as the session stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/service/shard_server.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_put;
using testing::encoded_scan;
using ::testing::HasSubstr;
using testing::kEpoch;
using testing::kRoute;
using testing::kShard;

/// The last one before those that the engine has for itself.
constexpr rpc::MethodId kWhoAmI = rpc::kRehearsalMethod - 1;

/// The table of kShard, with a session that "client/a" opened.
class GrantedShardTest : public testing::ShardServerTest {
 protected:
  GrantedShardTest() {
    serve();
    world_.endpoint().serve(kWhoAmI, [this](rpc::IncomingCall&& call) {
      session_ = call.session;
      call.reply.reply(rpc::MessagePtr::copy_of(as_byte_span(std::string_view("you"))));
    });
    be("client/a");
  }

  /// From now on requests are of a session that `owner` opened.
  void be(const std::string& owner) {
    world_.use_another_session();
    EXPECT_TRUE(world_.ask(static_cast<Method>(kWhoAmI), "?").rpc.ok());
    server_.owners().add(session_, owner);
  }
  /// "client/a" has these rights to the table; nullopt: no grants, so it is open.
  void grant(std::optional<Rights> rights) {
    std::vector<TableGrants> tables;
    if (rights) tables.push_back({kShard.table_id, "notes", {{"client/a", *rights}}});
    tables.push_back({kShard.table_id + 1, "other", {{"client/b", kRightRead}}});
    server_.set_grants(std::make_shared<const Grants>(tables));
  }
  Answer get() { return world_.ask(Method::kGet, encoded_get(kRoute, "key")); }
  Answer put(std::string_view value) { return world_.ask(Method::kPut, encoded_put(kRoute, "key", value)); }
  Answer scan() {
    ScanRequest request{kRoute};
    request.rows_max = request.bytes_max = 100;
    return world_.ask(Method::kScan, encoded_scan(request));
  }
  Answer get_with_ttl() {
    HeadBuffer head;
    GetRequest request{kRoute, "key"};
    request.wishes.ttl = true;
    return world_.ask(Method::kGet, as_string_view(encode_get(request, head).value()));
  }

  rpc::SessionId session_;
};

/// A request is judged before the rest of it is decoded, so any with a route will do: of one that may be served the
/// answer says that its method has other requests.
TEST_F(GrantedShardTest, EachMethodThatIsServedIsRefusedWithoutItsRightAndServedWithIt) {
  size_t served = 0;
  for (uint32_t number = 1; number < kWhoAmI; ++number) {
    const auto method = static_cast<Method>(number);
    const std::string request = encoded_get(kRoute, "key");
    grant(static_cast<Rights>(kRightsUnlimited & ~needed(method)));
    const Answer without = world_.ask(method, request);
    if (absl::IsUnimplemented(without.rpc)) {
      EXPECT_TRUE(number >= 32 || std::string(method_name(method)) == "?") << number;
      continue;
    }
    ++served;
    EXPECT_EQ(without.status(), KvStatus::kPermissionDenied) << method_name(method);
    grant(needed(method));
    EXPECT_NE(world_.ask(method, request).status(), KvStatus::kPermissionDenied) << method_name(method);
    grant(std::nullopt);
    EXPECT_NE(world_.ask(method, request).status(), KvStatus::kPermissionDenied) << method_name(method);
  }
  EXPECT_EQ(served, 10u);
}

TEST_F(GrantedShardTest, ARefusedWriteIsNotExecutedAndAReaderDoesNotWrite) {
  ASSERT_EQ(put("1").status(), KvStatus::kOk);
  grant(kRightRead);
  EXPECT_EQ(put("2").status(), KvStatus::kPermissionDenied);
  EXPECT_EQ(scan().status(), KvStatus::kPermissionDenied);
  EXPECT_EQ(get().value(), "1");
  EXPECT_EQ(world_.ask(Method::kMultiGet, encoded_multi_get(kRoute, {"key"})).status(), KvStatus::kOk);
  grant(kRightScan);
  EXPECT_EQ(scan().status(), KvStatus::kOk);
  EXPECT_EQ(get().status(), KvStatus::kPermissionDenied);
  EXPECT_EQ(get_with_ttl().status(), KvStatus::kPermissionDenied);
  EXPECT_EQ(world_.ask(Method::kMultiGet, encoded_multi_get(kRoute, {"key"})).status(), KvStatus::kPermissionDenied);
}

TEST_F(GrantedShardTest, ChangesAreInForceForASessionThatStands) {
  EXPECT_EQ(put("1").status(), KvStatus::kOk) << "open";
  for (int round = 0; round < 3; ++round) {
    grant(0);
    EXPECT_EQ(get().status(), KvStatus::kPermissionDenied);
    grant(kRightRead);
    EXPECT_EQ(get().status(), KvStatus::kOk);
    EXPECT_EQ(put("2").status(), KvStatus::kPermissionDenied);
    grant(std::nullopt);
    EXPECT_EQ(put("3").status(), KvStatus::kOk);
  }
}

TEST_F(GrantedShardTest, AShardThatComesAfterTheGrantsIsClosed) {
  bool idle = false;
  server_.shards().remove(kShard, [&] { idle = true; });
  world_.wait_for([&] { return idle; });
  grant(kRightWrite);
  serve();
  EXPECT_EQ(get().status(), KvStatus::kPermissionDenied);
  // A later view of the shard opens it no more than its first one.
  server_.shards().expect(kShard, kEpoch);
  EXPECT_EQ(get().status(), KvStatus::kPermissionDenied);
  EXPECT_EQ(put("1").status(), KvStatus::kOk);
}

TEST_F(GrantedShardTest, OthersHaveWhatIsTheirs) {
  grant(kRightsUnlimited);
  for (const char* owner : {"client/b", "client/", "monitor/a", ""}) {
    be(owner);
    EXPECT_EQ(get().status(), KvStatus::kPermissionDenied) << owner;
    EXPECT_EQ(put("1").status(), KvStatus::kPermissionDenied) << owner;
  }
  for (const char* owner : {"admin/ada", "node/5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10"}) {
    be(owner);
    EXPECT_EQ(put("1").status(), KvStatus::kOk) << owner;
    EXPECT_EQ(scan().status(), KvStatus::kOk) << owner;
  }
}

TEST_F(GrantedShardTest, ARefusalSaysWhoAndWhatAndTheCommandThatHelps) {
  grant(kRightRead);
  const Answer answer = put("1");
  EXPECT_THAT(std::string(answer.head().text),
              HasSubstr("client/a has no right to write table notes; an administrator can give it: skuactl grant add "
                        "client/a notes write"));
  be("");
  const Answer nobody = get();
  EXPECT_THAT(std::string(nobody.head().text), HasSubstr("table notes, which has grants"));
}

}  // namespace
}  // namespace skua::kv
