#include "ycsb/bindings/redis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/ycsb/bindings/collected.h"
#include "tests/ycsb/redis_server.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

class RedisTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::installed()) GTEST_SKIP() << "redis-server is not on PATH";
    server_ = std::make_unique<RedisServer>();
    ASSERT_TRUE(server_->running()) << "redis-server does not start";
  }

  std::unique_ptr<BindingSession> open(std::string_view properties = "", size_t in_flight = 64) {
    EXPECT_TRUE(properties_.parse(properties).ok());
    properties_.set("redis.port", std::to_string(server_->port()));
    auto binding = redis_binding().make({properties_, schema_, sink_});
    EXPECT_TRUE(binding.ok()) << binding.status();
    binding_ = *std::move(binding);
    auto session = binding_->open_session({.in_flight_max = in_flight, .return_fields = true});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  std::unique_ptr<RedisServer> server_;
  Properties properties_;
  Schema schema_{"usertable", {"field0", "field1"}};
  std::ostringstream out_;
  LineSink sink_{out_};
  std::unique_ptr<Binding> binding_;
};

using Fields = std::map<std::string, std::string>;

TEST_F(RedisTest, Submit_InsertReadUpdateDelete) {
  const auto session = open();
  Operation op;
  op.key = "user1";
  EXPECT_EQ(execute(*session, op).status, Status::kError);  // nothing there yet

  op.kind = OpKind::kInsert;
  set_values(op, {"a", std::string("\r\n\0 ", 4)});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);

  op.kind = OpKind::kRead;
  const Collected all = execute(*session, op);
  EXPECT_EQ(all.status, Status::kOk);
  EXPECT_EQ(all.fields, (Fields{{"field0", "a"}, {"field1", std::string("\r\n\0 ", 4)}}));

  op.kind = OpKind::kUpdate;
  set_values(op, {"changed"});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);

  op.kind = OpKind::kRead;
  op.all_fields = false;
  op.fields = {0};
  EXPECT_EQ(execute(*session, op).fields, (Fields{{"field0", "changed"}}));

  op.kind = OpKind::kDelete;
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
  EXPECT_EQ(execute(*session, op).status, Status::kError);
}

TEST_F(RedisTest, Submit_ScanFollowsTheIndex) {
  const auto session = open();
  Operation op;
  op.kind = OpKind::kInsert;
  for (int i = 0; i < 10; ++i) {
    op.key = concat("user", i);  // hash codes rise with i
    set_values(op, {"a", "b"});
    ASSERT_EQ(execute(*session, op).status, Status::kOk);
  }
  op.kind = OpKind::kScan;
  op.key = "user4";
  op.scan_length = 3;
  EXPECT_EQ(execute(*session, op).row_count, 3U);
  op.scan_length = 100;
  EXPECT_EQ(execute(*session, op).row_count, 6U);
  op.key = "userz";
  const Collected none = execute(*session, op);
  EXPECT_EQ(none.status, Status::kOk);
  EXPECT_EQ(none.row_count, 0U);
}

TEST_F(RedisTest, Submit_WithoutIndexScansFindNothing) {
  const auto session = open("redis.index=false");
  Operation op;
  op.kind = OpKind::kInsert;
  op.key = "user1";
  set_values(op, {"a"});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
  op.kind = OpKind::kScan;
  op.scan_length = 10;
  EXPECT_EQ(execute(*session, op).row_count, 0U);
  op.kind = OpKind::kDelete;
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
}

// Many operations of all kinds outstanding at once, values of up to 100 KB: each gets its own
// answer.
TEST_F(RedisTest, Poll_PipelinedAnswersReachTheirOperations) {
  constexpr size_t kInFlight = 64;
  const auto session = open("", kInFlight);
  std::deque<Operation> ops(kInFlight);
  for (size_t i = 0; i < kInFlight; ++i) {
    ops[i].kind = OpKind::kInsert;
    ops[i].key = concat("user", i);
    set_values(ops[i], {concat("value of ", i), std::string(i * 1600, 'x')});
  }
  for (int round = 0; round < 3; ++round) {
    std::deque<Collected> results(kInFlight);
    for (size_t i = 0; i < kInFlight; ++i) session->submit(ops[i], results[i].completion());
    const auto all_done = [&] {
      return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.done; });
    };
    for (int i = 0; i < 1000 && !all_done(); ++i) ASSERT_TRUE(session->poll(20 * kMillisecond).ok());
    for (size_t i = 0; i < kInFlight; ++i) {
      ASSERT_TRUE(results[i].done) << i;
      ASSERT_EQ(results[i].status, Status::kOk) << i << " " << results[i].message;
      if (ops[i].kind == OpKind::kRead) {
        ASSERT_EQ(results[i].fields.at("field0"), concat("value of ", i));
        ASSERT_EQ(results[i].fields.at("field1").size(), i * 1600);
      }
      if (ops[i].kind == OpKind::kScan) {
        ASSERT_GE(results[i].row_count, 1U);
      }
      ops[i].kind = round == 0 || i % 3 != 0 ? OpKind::kRead : OpKind::kScan;
      ops[i].scan_length = 5;
    }
  }
}

TEST_F(RedisTest, Submit_ServersErrorIsPassedOn) {
  const auto session = open();
  Operation op;
  op.kind = OpKind::kInsert;
  op.key = "user1";
  set_values(op, {"a"});
  ASSERT_EQ(execute(*session, op).status, Status::kOk);
  op.kind = OpKind::kRead;
  op.key = "_indices";  // a sorted set, not a hash
  const Collected result = execute(*session, op);
  EXPECT_EQ(result.status, Status::kError);
  EXPECT_EQ(result.message.substr(0, 9), "WRONGTYPE");
}

TEST_F(RedisTest, Poll_LostConnectionEndsEveryOperation) {
  const auto session = open();
  Operation op;
  op.key = "user1";
  server_->stop(SIGKILL);
  Collected first;
  Collected second;
  session->submit(op, first.completion());
  session->submit(op, second.completion());
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = session->poll(20 * kMillisecond);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(first.done && second.done);
  EXPECT_EQ(first.status, Status::kServiceUnavailable);
  Collected late;
  session->submit(op, late.completion());
  EXPECT_EQ(late.status, Status::kServiceUnavailable);
}

TEST_F(RedisTest, Make_NobodyThere) {
  server_->stop(SIGKILL);
  properties_.set("redis.port", std::to_string(server_->port()));
  const auto binding = redis_binding().make({properties_, schema_, sink_});
  EXPECT_EQ(binding.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(binding.status().message()).find("127.0.0.1"), std::string::npos);
}

TEST_F(RedisTest, Facts_NameTheServer) {
  const auto session = open();
  bool version = false;
  for (const auto& [name, value] : binding_->facts()) version |= name == "Store version";
  EXPECT_TRUE(version);
}

TEST(RedisBinding, Make_ClusterModeIsRefused) {
  Properties properties;
  properties.set("redis.cluster", "true");
  const Schema schema;
  std::ostringstream out;
  LineSink sink(out);
  EXPECT_EQ(redis_binding().make({properties, schema, sink}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace skua::ycsb
