#include "ycsb/bindings/memcached.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/ycsb/bindings/collected.h"
#include "tests/ycsb/memcached_server.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

class MemcachedTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!MemcachedServer::installed()) GTEST_SKIP() << "memcached is not on PATH";
    server_ = std::make_unique<MemcachedServer>();
    ASSERT_TRUE(server_->running()) << "memcached does not start";
    properties_.set("memcached.port", std::to_string(server_->port()));
    auto binding = memcached_binding().make({properties_, schema_, sink_});
    ASSERT_TRUE(binding.ok()) << binding.status();
    binding_ = *std::move(binding);
  }

  std::unique_ptr<BindingSession> open(size_t in_flight = 64) {
    auto session = binding_->open_session({.in_flight_max = in_flight, .return_fields = true});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  static void poll_until_done(BindingSession& session, const std::deque<Collected>& results) {
    const auto all_done = [&] {
      return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.done; });
    };
    for (int i = 0; i < 1000 && !all_done(); ++i) ASSERT_TRUE(session.poll(20 * kMillisecond).ok());
    ASSERT_TRUE(all_done());
  }

  std::unique_ptr<MemcachedServer> server_;
  Properties properties_;
  Schema schema_{"usertable", {"field0", "field1"}};
  std::ostringstream out_;
  LineSink sink_{out_};
  std::unique_ptr<Binding> binding_;
};

using Fields = std::map<std::string, std::string>;

TEST_F(MemcachedTest, Submit_InsertReadUpdateDelete) {
  const auto session = open();
  Operation op;
  op.key = "user1";
  EXPECT_EQ(execute(*session, op).status, Status::kNotFound);
  op.kind = OpKind::kUpdate;
  set_values(op, {"x"});
  EXPECT_EQ(execute(*session, op).status, Status::kNotFound);
  set_values(op, {"x", "y"});
  EXPECT_EQ(execute(*session, op).status, Status::kNotFound);

  op.kind = OpKind::kInsert;
  set_values(op, {"a", std::string("\r\n\0 ", 4)});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);

  op.kind = OpKind::kRead;
  EXPECT_EQ(execute(*session, op).fields, (Fields{{"field0", "a"}, {"field1", std::string("\r\n\0 ", 4)}}));

  op.kind = OpKind::kUpdate;
  set_values(op, {"changed"});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
  op.kind = OpKind::kRead;
  EXPECT_EQ(execute(*session, op).fields, (Fields{{"field0", "changed"}, {"field1", std::string("\r\n\0 ", 4)}}));
  op.all_fields = false;
  op.fields = {0};
  EXPECT_EQ(execute(*session, op).fields, (Fields{{"field0", "changed"}}));

  op.kind = OpKind::kUpdate;
  set_values(op, {"both", "replaced"});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
  op.kind = OpKind::kRead;
  op.all_fields = true;
  EXPECT_EQ(execute(*session, op).fields, (Fields{{"field0", "both"}, {"field1", "replaced"}}));

  op.kind = OpKind::kDelete;
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
  EXPECT_EQ(execute(*session, op).status, Status::kNotFound);
}

TEST_F(MemcachedTest, Submit_ScansAreNotThere) {
  const auto session = open();
  Operation op;
  op.kind = OpKind::kScan;
  op.key = "user1";
  const Collected result = execute(*session, op);
  EXPECT_EQ(result.status, Status::kNotImplemented);
  EXPECT_EQ(result.message, "memcached has no scans");
}

TEST_F(MemcachedTest, Submit_WhatTheServerRefuses) {
  const auto session = open();
  Operation op;
  op.kind = OpKind::kInsert;
  op.key = std::string(251, 'k');
  set_values(op, {"a"});
  EXPECT_EQ(execute(*session, op).status, Status::kBadRequest);
  op.key = "user1";
  set_values(op, {std::string(2'000'000, 'x')});  // beyond memcached's default of 1 MiB
  const Collected result = execute(*session, op);
  EXPECT_EQ(result.status, Status::kError);
  EXPECT_NE(result.message.find("too large"), std::string::npos) << result.message;
  set_values(op, {"a"});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
}

// Many operations of all kinds outstanding at once, values of up to 100 KB: each gets its own answer.
TEST_F(MemcachedTest, Poll_PipelinedAnswersReachTheirOperations) {
  constexpr size_t kInFlight = 64;
  const auto session = open(kInFlight);
  std::deque<Operation> ops(kInFlight);
  for (int round = 0; round < 4; ++round) {
    std::deque<Collected> results(kInFlight);
    for (size_t i = 0; i < kInFlight; ++i) {
      ops[i].key = concat("user", i);
      const bool updates = round == 2 && i % 3 == 0;
      ops[i].kind = round == 0 ? OpKind::kInsert : updates ? OpKind::kUpdate : OpKind::kRead;
      if (round == 0) set_values(ops[i], {concat("value of ", i), std::string(i * 1600, 'x')});
      if (updates) set_values(ops[i], {concat("new value of ", i)});
    }
    for (size_t i = 0; i < kInFlight; ++i) session->submit(ops[i], results[i].completion());
    poll_until_done(*session, results);
    for (size_t i = 0; i < kInFlight; ++i) {
      ASSERT_EQ(results[i].status, Status::kOk) << i << " " << results[i].message;
      if (ops[i].kind != OpKind::kRead) continue;
      const bool updated = round == 3 && i % 3 == 0;
      ASSERT_EQ(results[i].fields.at("field0"), concat(updated ? "new value of " : "value of ", i));
      ASSERT_EQ(results[i].fields.at("field1").size(), i * 1600);
    }
  }
}

// Updates of one record's two fields, all at once and from two connections: none is lost.
TEST_F(MemcachedTest, Poll_UpdatesOfOneRecordDoNotUndoEachOther) {
  const auto first = open();
  const auto second = open();
  Operation insert;
  insert.kind = OpKind::kInsert;
  insert.key = "user1";
  set_values(insert, {"0", "0"});
  ASSERT_EQ(execute(*first, insert).status, Status::kOk);
  std::deque<Operation> ops(40);
  std::deque<Collected> results(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    ops[i].kind = OpKind::kUpdate;
    ops[i].key = "user1";
    ops[i].begin_writes(std::array<uint32_t, 1>{static_cast<uint32_t>(i % 2)}, std::array<uint64_t, 1>{1});
    *ops[i].value_room(0) = 'x';
    BindingSession& session = i % 2 == 0 ? *first : *second;
    session.submit(ops[i], results[i].completion());
  }
  const auto done = [&] { return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.done; }); };
  for (int i = 0; i < 10'000 && !done(); ++i) {
    ASSERT_TRUE(first->poll(kMillisecond).ok());
    ASSERT_TRUE(second->poll(kMillisecond).ok());
  }
  for (const Collected& result : results) ASSERT_EQ(result.status, Status::kOk);
  insert.kind = OpKind::kRead;
  EXPECT_EQ(execute(*first, insert).fields, (Fields{{"field0", "x"}, {"field1", "x"}}));
}

TEST_F(MemcachedTest, Poll_LostConnectionEndsEveryOperation) {
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

TEST_F(MemcachedTest, Make_NobodyThere) {
  server_->stop(SIGKILL);
  const auto binding = memcached_binding().make({properties_, schema_, sink_});
  EXPECT_EQ(binding.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(binding.status().message()).find("memcached at 127.0.0.1"), std::string::npos);
}

TEST_F(MemcachedTest, Facts_NameTheServer) {
  Fields facts;
  for (const auto& [name, value] : binding_->facts()) facts[name] = value;
  EXPECT_EQ(facts["Store memory limit (bytes)"], std::to_string(64 << 20));
  EXPECT_EQ(facts["Store threads"], "2");
  EXPECT_EQ(facts["Store version"].substr(0, 2), "1.");
}

TEST(MemcachedBinding, Make_ListsOfServersAreRefused) {
  Properties properties;
  properties.set("memcached.hosts", "a,b");
  const Schema schema;
  std::ostringstream out;
  LineSink sink(out);
  EXPECT_EQ(memcached_binding().make({properties, schema, sink}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace skua::ycsb
