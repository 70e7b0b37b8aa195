// Clients with quotas: their requests are refused while a quota is used up, and those of others are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvstore/service/shard_server.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_mutation;
using testing::encoded_put;
using ::testing::HasSubstr;
using testing::kEpoch;
using testing::kRoute;
using testing::kShard;

constexpr rpc::MethodId kWhoIsIt = rpc::kRehearsalMethod - 1;

/// A shard, with a session that "client/a" opened.
class LimitedShardTest : public testing::ShardServerTest {
 protected:
  LimitedShardTest() {
    serve();
    world_.endpoint().serve(kWhoIsIt, [this](rpc::IncomingCall&& call) {
      session_ = call.session;
      call.reply.reply(rpc::MessagePtr::copy_of(as_byte_span(std::string_view("you"))));
    });
    be("client/a");
  }

  /// From now on requests are of a session that `owner` opened.
  void be(const std::string& owner) {
    world_.use_another_session();
    EXPECT_TRUE(world_.ask(static_cast<Method>(kWhoIsIt), "?").rpc.ok());
    server_.owners().add(session_, owner);
  }
  void limit(const std::vector<ClientQuota>& quotas, uint32_t workers = 1) {
    server_.set_quotas(std::make_shared<const Quotas>(quotas, workers));
  }
  Answer get(const std::string& key = "key") { return world_.ask(Method::kGet, encoded_get(kRoute, key)); }
  Answer put(std::string_view value) { return world_.ask(Method::kPut, encoded_put(kRoute, "key", value)); }
  Answer put_as(uint64_t client_id, uint64_t seq) {
    MutationRequest request{kRoute, mutations::put("key", as_byte_span(std::string_view("v")))};
    request.id = {client_id, seq, 1};
    return world_.ask(Method::kPut, encoded_mutation(request));
  }
  uint64_t refusals(QuotaKind kind) { return server_.stats().quota_refusals[static_cast<size_t>(kind)]; }

  rpc::SessionId session_;
};

TEST_F(LimitedShardTest, OperationsAreRefusedAboveTheRateAndServedAgainLater) {
  EXPECT_EQ(put("1").status(), KvStatus::kOk);
  limit({{"client/a", 3, 0, 0, 0}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get().value(), "1");
  const Answer refused = get();
  EXPECT_EQ(refused.status(), KvStatus::kResourceExhausted);
  EXPECT_THAT(std::string(refused.head().text),
              HasSubstr("client/a has used up its quota of this node: 3 operations/s"));
  EXPECT_EQ(put("2").status(), KvStatus::kResourceExhausted);
  EXPECT_EQ(refusals(QuotaKind::kOperations), 2u);
  world_.pass(kSecond / 3);
  EXPECT_EQ(get().value(), "1") << "the refused write was not executed";
  world_.pass(10 * kSecond);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get().value(), "1");
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted);
  limit({});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(put("3").status(), KvStatus::kOk);
}

TEST_F(LimitedShardTest, OthersAreNotAffected) {
  limit({{"client/a", 1, 1, 0, 0}, {"client/c", 1, 0, 0, 0}});
  EXPECT_EQ(put("1").status(), KvStatus::kOk);
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted);
  for (const char* owner : {"client/b", "admin/ada", "node/5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10", ""}) {
    be(owner);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(put("2").status(), KvStatus::kOk) << owner;
    EXPECT_EQ(get().value(), "2") << owner;
  }
  be("client/a");
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted) << "another session of the same client";
  be("client/c");
  EXPECT_EQ(get().value(), "2") << "a quota of its own";
}

TEST_F(LimitedShardTest, BytesOfRequestsAndOfRepliesCount) {
  const std::string value(3000, 'v');
  limit({{"client/a", 0, 4000, 0, 0}});
  EXPECT_EQ(put(value).status(), KvStatus::kOk);
  EXPECT_EQ(get().value(), value) << "there were some hundred bytes left";
  const Answer refused = get();
  EXPECT_EQ(refused.status(), KvStatus::kResourceExhausted);
  EXPECT_THAT(std::string(refused.head().text), HasSubstr("4000 bytes/s"));
  EXPECT_EQ(refusals(QuotaKind::kBytes), 1u);
  world_.pass(kSecond / 4);
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted) << "the reply took 2,000 bytes more than there were";
  world_.pass(kSecond / 2);
  EXPECT_EQ(get().value(), value);
}

/// Whoever tries again would otherwise never be served again.
TEST_F(LimitedShardTest, RefusalsCostNothing) {
  limit({{"client/a", 0, 100, 0, 0}});
  EXPECT_EQ(put(std::string(100, 'v')).status(), KvStatus::kOk);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(get("other").status(), KvStatus::kResourceExhausted);
  world_.pass(3 * kSecond);
  EXPECT_EQ(get("other").status(), KvStatus::kNotFound);
}

TEST_F(LimitedShardTest, EachKeyAndEachOperationOfABatchCounts) {
  limit({{"client/a", 10, 0, 0, 0}});
  EXPECT_EQ(world_.ask(Method::kMultiGet, encoded_multi_get(kRoute, {"a", "b", "c", "d", "e", "f", "g", "h"})).status(),
            KvStatus::kOk);
  EXPECT_NE(get().status(), KvStatus::kResourceExhausted);
  EXPECT_NE(get().status(), KvStatus::kResourceExhausted);
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted);
  world_.pass(kSecond);
  BatchOpsBuilder ops;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(ops.add(mutations::put("key", as_byte_span(std::string_view("v")))).ok());
  }
  BatchRequest batch{kRoute};
  batch.ops = ops.ops();
  HeadBuffer head;
  const std::string request(as_string_view(encode_batch_head(batch, head).value()));
  EXPECT_EQ(world_.ask(Method::kBatch, request + std::string(as_string_view(batch.ops.bytes()))).status(),
            KvStatus::kOk);
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted);
}

/// Otherwise a client could keep a worker busy with what it does not serve.
TEST_F(LimitedShardTest, RequestsThatCannotBeServedCountToo) {
  limit({{"client/a", 3, 0, 0, 0}});
  Route elsewhere = kRoute;
  elsewhere.shard += 1;
  Route earlier = kRoute;
  earlier.epoch -= 1;
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(elsewhere, "key")).status(), KvStatus::kWrongShard);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(earlier, "key")).status(), KvStatus::kWrongShard);
  EXPECT_EQ(world_.ask(Method::kPut, "?").status(), KvStatus::kInvalidArgument);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(elsewhere, "key")).status(), KvStatus::kResourceExhausted);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(earlier, "key")).status(), KvStatus::kResourceExhausted);
  EXPECT_EQ(world_.ask(Method::kPut, "?").status(), KvStatus::kResourceExhausted);
}

TEST_F(LimitedShardTest, GrantsAreJudgedAsWell) {
  server_.set_grants(
      std::make_shared<const Grants>(std::vector<TableGrants>{{kShard.table_id, "notes", {{"client/a", kRightRead}}}}));
  limit({{"client/a", 2, 0, 0, 0}});
  EXPECT_EQ(put("1").status(), KvStatus::kPermissionDenied);
  EXPECT_EQ(get().status(), KvStatus::kNotFound);
  EXPECT_EQ(put("1").status(), KvStatus::kResourceExhausted);
  limit({});
  EXPECT_EQ(put("1").status(), KvStatus::kPermissionDenied);
  EXPECT_EQ(get().status(), KvStatus::kNotFound);
}

TEST_F(LimitedShardTest, AShardThatComesAfterTheQuotasIsCounted) {
  bool idle = false;
  server_.shards().remove(kShard, [&] { idle = true; });
  world_.wait_for([&] { return idle; });
  limit({{"client/a", 1, 0, 0, 0}});
  serve();
  EXPECT_EQ(get().status(), KvStatus::kNotFound);
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted);
  // A later view of the shard lifts no limit.
  server_.shards().expect(kShard, kEpoch);
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted);
}

TEST_F(LimitedShardTest, OneClientIdTooManyIsRefusedBeforeItTakesRoom) {
  limit({{"client/a", 0, 0, 0, 2}});
  EXPECT_EQ(put_as(1, 1).status(), KvStatus::kOk);
  EXPECT_EQ(put_as(2, 1).status(), KvStatus::kOk);
  const Answer refused = put_as(3, 1);
  EXPECT_EQ(refused.status(), KvStatus::kResourceExhausted);
  EXPECT_THAT(std::string(refused.head().text), HasSubstr("2 client ids that write within a minute"));
  EXPECT_EQ(refusals(QuotaKind::kClientIds), 1u);
  EXPECT_EQ(put_as(1, 2).status(), KvStatus::kOk) << "one that has its place";
  EXPECT_EQ(put("without an id").status(), KvStatus::kOk);
  EXPECT_EQ(get().status(), KvStatus::kOk);
  be("client/b");
  EXPECT_EQ(put_as(3, 1).status(), KvStatus::kOk);
  be("client/a");
  EXPECT_EQ(put_as(3, 1).status(), KvStatus::kOk) << "a repetition: its answer is kept, and takes no room";
  EXPECT_EQ(put_as(3, 2).status(), KvStatus::kResourceExhausted);
  world_.pass(ClientIds::kIdleNs + kSecond);
  be("client/a");
  EXPECT_EQ(put_as(3, 2).status(), KvStatus::kOk);
}

TEST_F(LimitedShardTest, MetricsCountRefusalsByQuota) {
  limit({{"client/a", 1, 0, 0, 0}});
  EXPECT_EQ(get().status(), KvStatus::kNotFound);
  EXPECT_EQ(get().status(), KvStatus::kResourceExhausted);
  const WorkerStats stats = server_.stats();
  const std::string text = format_metrics({&stats, 1});
  EXPECT_THAT(text, HasSubstr("skua_quota_refusals_total{worker=\"0\",quota=\"operations\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("skua_quota_refusals_total{worker=\"0\",quota=\"client_ids\"} 0\n"));
}

}  // namespace
}  // namespace skua::kv
