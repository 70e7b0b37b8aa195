#include "kvstore/server/shard_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kvstore/codec/row.h"
#include "kvstore/engine/rocksdb_engine.h"
#include "kvstore/engine/shard_life.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/engine/engine_testing.h"
#include "tests/kvstore/server/server_testing.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_delete;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_patch;
using testing::encoded_put;
using testing::encoded_scan;
using testing::FakeDbEngine;
using ::testing::HasSubstr;
using testing::ServerWorld;
using testing::TemporaryDirectory;
using testing::TwinShard;

constexpr ShardId kShard{3, 1};
constexpr uint64_t kEpoch = 5;
constexpr uint64_t kRevision = 40;
constexpr Route kRoute{3, 1, kEpoch, kRevision};

/// One shard in RocksDB, served.
class RocksdbServerTest : public ::testing::Test {
 protected:
  explicit RocksdbServerTest(LogOptions log_options = ServerWorld::log_files(8 << 20)) {
    RocksdbOptions options;
    options.cache_bytes = 64 << 20;
    options.write_buffer_bytes = 64 << 20;
    options.now_ms = [] { return testing::g_unix_ms.load(); };
    engine_ = make_rocksdb_engine(options);
    world_ = std::make_unique<ServerWorld>(ShardServer::Options{}, log_options);
    world_->server().set_map_revision(kRevision);
    serve();
  }
  ~RocksdbServerTest() override {
    world_.reset();
    db_.reset();
  }

  void serve() {
    db_ = engine_->open_db(directory_.path(), kShard).value();
    world_->server().expect(kShard, kEpoch);
    world_->server().serve(kShard, *db_);
  }
  /// Closed and opened again: nothing is left in memory.
  void serve_again() {
    world_->server().remove(kShard, [&] { db_.reset(); });
    world_->wait_for([&] { return db_ == nullptr; });
    serve();
  }

  Answer get(std::string_view key) { return world_->ask(Method::kGet, encoded_get(kRoute, key)); }
  Answer put(std::string_view key, std::string_view value, Condition condition = {}) {
    return world_->ask(Method::kPut, encoded_put(kRoute, key, value, condition));
  }

  TemporaryDirectory directory_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardDb> db_;
  std::unique_ptr<ServerWorld> world_;
};

class LargeValuesServerTest : public RocksdbServerTest {
 protected:
  LargeValuesServerTest() : RocksdbServerTest(ServerWorld::log_files(64 << 20)) {}
};

TEST_F(RocksdbServerTest, Get_TellsVersionEpochAndRevision) {
  const ReplyHead written = put("key", "value").head();
  const Answer answer = get("key");
  EXPECT_EQ(answer.value(), "value");
  EXPECT_EQ(answer.head().version, written.version);
  EXPECT_EQ(answer.head().epoch, kEpoch);
  EXPECT_EQ(answer.head().map_revision, kRevision);
}

TEST_F(RocksdbServerTest, Get_NotFound) {
  EXPECT_EQ(get("nothing").status(), KvStatus::kNotFound);
}

TEST_F(RocksdbServerTest, Get_ValuesOfEverySize) {
  // Around what is copied, and what is kept in memory.
  for (const size_t size : std::initializer_list<size_t>{0, 1, 223, 224, 225, 4096, 16383, 16384, 16385, 65535, 70000,
                                                         260000, 270000, 1 << 20}) {
    const std::string value(size, static_cast<char>('a' + size % 26));
    ASSERT_EQ(put("key", value).status(), KvStatus::kOk);
    EXPECT_EQ(get("key").value(), value) << size;
    serve_again();
    EXPECT_EQ(get("key").value(), value) << size << " from the disk";
    EXPECT_EQ(get("key").value(), value) << size;
  }
}

TEST_F(LargeValuesServerTest, Put_SixteenMebibytes) {
  const std::string value(kValueBytesMax, 'v');
  ASSERT_EQ(put("large", value).status(), KvStatus::kOk);
  EXPECT_TRUE(get("large").value() == value);
}

TEST_F(RocksdbServerTest, Put_RefusesWhatIsTooLarge) {
  // As a client would send it that does not check: the codec's encoder refuses to make it.
  std::string request = encoded_put(kRoute, "k", "");
  const uint32_t size = kValueBytesMax + 1;
  store_le(std::as_writable_bytes(std::span(request)).data() + 28, size);
  request.append(size, 'v');
  const Answer answer = world_->ask(Method::kPut, request);
  EXPECT_EQ(answer.status(), KvStatus::kInvalidArgument);
  EXPECT_THAT(std::string(answer.head().text), HasSubstr("kValueBytesMax"));
  EXPECT_EQ(get("k").status(), KvStatus::kNotFound);
}

TEST_F(RocksdbServerTest, Put_Conditions) {
  EXPECT_EQ(put("key", "1", Condition::if_absent()).status(), KvStatus::kOk);
  const uint64_t version = get("key").head().version;
  const ReplyHead exists = put("key", "2", Condition::if_absent()).head();
  EXPECT_EQ(exists.status, KvStatus::kAlreadyExists);
  EXPECT_EQ(exists.version, version);
  const ReplyHead mismatch = put("key", "2", Condition::if_version(version + 9)).head();
  EXPECT_EQ(mismatch.status, KvStatus::kVersionMismatch);
  EXPECT_EQ(mismatch.version, version);
  EXPECT_EQ(put("key", "2", Condition::if_version(version)).status(), KvStatus::kOk);
  EXPECT_EQ(get("key").value(), "2");
}

TEST_F(RocksdbServerTest, Delete_OnceOnly) {
  EXPECT_EQ(put("key", "value").status(), KvStatus::kOk);
  EXPECT_EQ(world_->ask(Method::kDelete, encoded_delete(kRoute, "key")).status(), KvStatus::kOk);
  EXPECT_EQ(get("key").status(), KvStatus::kNotFound);
  EXPECT_EQ(world_->ask(Method::kDelete, encoded_delete(kRoute, "key")).status(), KvStatus::kNotFound);
}

TEST_F(RocksdbServerTest, Patch_ReplacesAFieldAndRefusesWhatIsNoRow) {
  std::string row;
  append_field(row, {"a", as_byte_span("1")});
  append_field(row, {"b", as_byte_span("2")});
  ASSERT_EQ(put("row", row).status(), KvStatus::kOk);
  std::string patch;
  append_field(patch, {"b", as_byte_span("3")});
  EXPECT_EQ(world_->ask(Method::kPatch, encoded_patch(kRoute, "row", patch, false)).status(), KvStatus::kOk);
  const std::string patched = get("row").value();
  EXPECT_EQ(as_string_view(*find_field(as_byte_span(patched), "a")), "1");
  EXPECT_EQ(as_string_view(*find_field(as_byte_span(patched), "b")), "3");
  EXPECT_EQ(world_->ask(Method::kPatch, encoded_patch(kRoute, "none", patch, false)).status(), KvStatus::kNotFound);
  EXPECT_EQ(world_->ask(Method::kPatch, encoded_patch(kRoute, "none", patch, true)).status(), KvStatus::kOk);
  ASSERT_EQ(put("plain", "not a row").status(), KvStatus::kOk);
  EXPECT_EQ(world_->ask(Method::kPatch, encoded_patch(kRoute, "plain", patch, true)).status(), KvStatus::kNotARow);
}

TEST_F(RocksdbServerTest, MultiGet_KeepsTheOrderOfTheKeys) {
  ASSERT_EQ(put("a", "1").status(), KvStatus::kOk);
  ASSERT_EQ(put("b", std::string(300, '2')).status(), KvStatus::kOk);
  const Answer answer = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {"b", "none", "a", "b"}));
  ASSERT_TRUE(answer.rpc.ok());
  auto reply = decode_multi_get_reply(as_byte_span(answer.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  std::vector<std::string> seen;
  while (const auto entry = reply->entries.next()) {
    seen.push_back(entry->status == KvStatus::kOk ? std::string(as_string_view(entry->value))
                                                  : status_name(entry->status));
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(std::string(300, '2'), "NOT_FOUND", "1", std::string(300, '2')));
}

TEST_F(LargeValuesServerTest, MultiGet_LeavesOutWhatGoesOverTheLimit) {
  const std::string half(kBatchBytesMax / 2, 'h');
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(put(key, half).status(), KvStatus::kOk);
  ASSERT_EQ(put("small", "s").status(), KvStatus::kOk);
  const Answer answer = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {"a", "b", "c", "small"}));
  auto reply = decode_multi_get_reply(as_byte_span(answer.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->entries.next()->value.size(), half.size());
  EXPECT_EQ(reply->entries.next()->value.size(), half.size());
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kResourceExhausted);
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kResourceExhausted);
}

TEST_F(RocksdbServerTest, Scan_PageByPage) {
  std::map<std::string, std::string> twin;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(100 + i);
    twin[key] = std::string(static_cast<size_t>(i), 'x');
    world_->send(Method::kPut, encoded_put(kRoute, key, twin[key]));
  }
  world_->wait_for_answers();
  std::map<std::string, std::string> seen;
  std::string token;
  int pages = 0;
  do {
    const Answer answer = world_->ask(Method::kScan, encoded_scan({.route = kRoute,
                                                                   .start_key = "key110",
                                                                   .end_key = "key190",
                                                                   .rows_max = 17,
                                                                   .bytes_max = 100'000,
                                                                   .resume_token = token}));
    ASSERT_TRUE(answer.rpc.ok()) << answer.rpc;
    auto reply = decode_scan_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    while (const auto row = reply->rows.next()) {
      seen[std::string(row->key)] = as_string_view(row->value);
    }
    token = reply->has_more ? std::string(reply->resume_token) : std::string();
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(pages, 5);
  EXPECT_EQ(seen, (std::map<std::string, std::string>(twin.find("key110"), twin.find("key190"))));
}

TEST_F(RocksdbServerTest, Scan_RefusesAForeignToken) {
  const Answer answer = world_->ask(
      Method::kScan, encoded_scan({.route = kRoute, .rows_max = 1, .bytes_max = 1, .resume_token = "made up"}));
  EXPECT_EQ(answer.status(), KvStatus::kInvalidArgument);
}

std::string encoded_add(std::string_view key, int64_t delta, const RequestId& id = {}, Condition condition = {}) {
  HeadBuffer head;
  AddRequest request{kRoute, condition, key, delta};
  request.id = id;
  return std::string(as_string_view(encode_add(request, head).value()));
}

/// A mutation as a request.
std::pair<Method, std::string> encoded(const Mutation& m) {
  const std::string_view value = as_string_view(m.value);
  switch (m.kind) {
    case Mutation::Kind::kPut: {
      HeadBuffer head;
      PutRequest request{kRoute, m.condition, m.key, m.value};
      request.ttl_ms = m.ttl_ms;
      return {Method::kPut, std::string(as_string_view(encode_put_head(request, head).value())).append(value)};
    }
    case Mutation::Kind::kDelete: return {Method::kDelete, encoded_delete(kRoute, m.key, m.condition)};
    case Mutation::Kind::kAdd: return {Method::kAdd, encoded_add(m.key, m.delta, {}, m.condition)};
    case Mutation::Kind::kAppend: {
      HeadBuffer head;
      const AppendRequest request{kRoute, m.condition, m.key, m.value};
      return {Method::kAppend, std::string(as_string_view(encode_append_head(request, head).value())).append(value)};
    }
    case Mutation::Kind::kExpire: {
      HeadBuffer head;
      const ExpireRequest request{kRoute, m.condition, m.key, m.ttl_ms};
      return {Method::kExpire, std::string(as_string_view(encode_expire(request, head).value()))};
    }
    case Mutation::Kind::kPatch: break;
  }
  return {Method::kPatch, encoded_patch(kRoute, m.key, value, m.create_if_missing)};
}

struct PendingWrite {
  Mutation mutation;
  std::shared_ptr<Answer> answer;
};

GetReply get_reply(const Answer& answer) {
  const auto reply = decode_get_reply(as_byte_span(answer.bytes));
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? *reply : GetReply{};
}

TEST_F(RocksdbServerTest, Get_TellsWhatIsLeftOfItsTime) {
  HeadBuffer head;
  for (const size_t size : {size_t{3}, size_t{214}, size_t{1000}}) {
    const std::string value(size, 'v');
    PutRequest put_request{kRoute, {}, "key", as_byte_span(value)};
    put_request.ttl_ms = 100;
    world_->ask(Method::kPut, std::string(as_string_view(encode_put_head(put_request, head).value())).append(value));
    GetRequest request{kRoute, "key"};
    request.wants_ttl = true;
    const std::string with_ttl(as_string_view(encode_get(request, head).value()));
    world_->set_time(testing::g_unix_ms + 40);
    EXPECT_EQ(get_reply(world_->ask(Method::kGet, with_ttl)).ttl_ms, 60u);
    EXPECT_EQ(get("key").value(), value);
    serve_again();
    EXPECT_EQ(get_reply(world_->ask(Method::kGet, with_ttl)).ttl_ms, 60u) << "from the disk";
    world_->set_time(testing::g_unix_ms + 60);
    EXPECT_EQ(get("key").status(), KvStatus::kNotFound);
    serve_again();
    EXPECT_EQ(get("key").status(), KvStatus::kNotFound);
    const std::vector<std::string_view> keys = {"key"};
    const Answer page = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, keys));
    auto entries = decode_multi_get_reply(as_byte_span(page.bytes)).value().entries;
    EXPECT_EQ(entries.next()->status, KvStatus::kNotFound);
  }
}

TEST_F(RocksdbServerTest, Get_BehindATokenIsTold) {
  const uint64_t index = put("key", "value").head().index;
  EXPECT_EQ(index, 1u);
  HeadBuffer head;
  GetRequest request{kRoute, "key"};
  request.at_least_index = index;
  EXPECT_EQ(world_->ask(Method::kGet, as_string_view(encode_get(request, head).value())).value(), "value");
  request.at_least_index = index + 1;
  EXPECT_EQ(world_->ask(Method::kGet, as_string_view(encode_get(request, head).value())).status(),
            KvStatus::kBehindToken);
}

TEST_F(RocksdbServerTest, Get_OfAStateThatWasLostIsTold) {
  put("key", "value");
  world_->server().remove(kShard, [&] { db_.reset(); });
  world_->wait_for([&] { return db_ == nullptr; });
  for (int life = 0; life < 2; ++life) {
    db_.reset();
    db_ = engine_->open_db(directory_.path(), kShard).value();
    ASSERT_TRUE(begin_life(*db_).ok());
  }
  world_->server().expect(kShard, kEpoch);
  world_->server().serve(kShard, *db_);
  const auto status_at = [&](uint64_t index) {
    HeadBuffer head;
    GetRequest request{kRoute, "key"};
    request.at_least_index = index;
    return world_->ask(Method::kGet, as_string_view(encode_get(request, head).value())).status();
  };
  EXPECT_EQ(status_at(1), KvStatus::kOk);
  EXPECT_EQ(status_at(2), KvStatus::kBehindToken) << "of a write that may have been answered and is not there";
  EXPECT_EQ(status_at(kIndexStep + 1), KvStatus::kOk);
  EXPECT_EQ(put("key", "other").head().index, kIndexStep + 2);
}

TEST_F(RocksdbServerTest, Add_OnceHoweverOftenItIsSent) {
  const RequestId id{9, 1, 1};
  for (int i = 0; i < 3; ++i) {
    const Answer answer = world_->ask(Method::kAdd, encoded_add("counter", 5, id));
    const auto reply = decode_add_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->value, 5);
    EXPECT_EQ(reply->write.durability, Durability::kSync);
    EXPECT_EQ(reply->write.from_record, i > 0);
    if (i == 1) serve_again();
  }
  EXPECT_EQ(get("counter").value(), "5");
  EXPECT_EQ(world_->ask(Method::kAdd, encoded_add("counter", 1, {9, 2, 2})).status(), KvStatus::kOk);
  EXPECT_EQ(world_->ask(Method::kAdd, encoded_add("counter", 5, id)).status(), KvStatus::kStaleRetry);
  put("text", "x");
  EXPECT_EQ(world_->ask(Method::kAdd, encoded_add("text", 1)).status(), KvStatus::kNotANumber);
}

TEST_F(RocksdbServerTest, Add_OfAFullDiskIsRefusedButWhatWasDoneIsAnsweredAgain) {
  const RequestId id{9, 1, 1};
  ASSERT_EQ(world_->ask(Method::kAdd, encoded_add("counter", 5, id)).status(), KvStatus::kOk);
  world_->server().set_growth(absl::ResourceExhaustedError("the disk is full"));
  const Answer again = world_->ask(Method::kAdd, encoded_add("counter", 5, id));
  const auto reply = decode_add_reply(as_byte_span(again.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->value, 5);
  EXPECT_TRUE(reply->write.from_record);
  EXPECT_EQ(world_->ask(Method::kAdd, encoded_add("counter", 5, {9, 2, 1})).status(), KvStatus::kResourceExhausted);
  EXPECT_EQ(world_->ask(Method::kAdd, encoded_add("counter", 5)).status(), KvStatus::kResourceExhausted);
  world_->server().set_growth(absl::OkStatus());
  EXPECT_EQ(world_->ask(Method::kAdd, encoded_add("counter", 5, {9, 2, 1})).status(), KvStatus::kOk);
  EXPECT_EQ(get("counter").value(), "10");
}

TEST_F(RocksdbServerTest, Put_TellsTheDurabilityThatItHas) {
  for (const Durability asked : {Durability::kDefault, Durability::kMemory, Durability::kFlush, Durability::kSync}) {
    HeadBuffer head;
    PutRequest request{kRoute, {}, "key", as_byte_span("v")};
    request.durability = asked;
    const Answer answer =
        world_->ask(Method::kPut, std::string(as_string_view(encode_put_head(request, head).value())) + "v");
    const auto reply = decode_write_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->durability, asked == Durability::kDefault ? Durability::kSync : asked);
  }
}

TEST_F(RocksdbServerTest, Batch_AllOrNothing) {
  const auto ask = [&](std::span<const BatchOp> ops, const RequestId& id) {
    BatchOpsBuilder builder;
    for (const BatchOp& op : ops) EXPECT_TRUE(builder.add(op).ok());
    BatchRequest request;
    request.route = kRoute;
    request.ops = builder.ops();
    request.id = id;
    HeadBuffer head;
    std::string bytes(as_string_view(encode_batch_head(request, head).value()));
    return world_->ask(Method::kBatch, bytes.append(as_string_view(request.ops.bytes())));
  };
  BatchOp put_op;
  put_op.key = "a";
  put_op.value = as_byte_span("1");
  BatchOp add_op;
  add_op.kind = BatchOp::Kind::kAdd;
  add_op.key = "a";
  add_op.delta = 4;
  BatchOp absent_op = put_op;
  absent_op.condition = Condition::if_absent();
  const BatchOp good[] = {put_op, add_op};
  for (int i = 0; i < 2; ++i) {
    const Answer answer = ask(good, {4, 1, 1});
    auto reply = decode_batch_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->applied);
    EXPECT_EQ(reply->from_record, i > 0);
    EXPECT_EQ(reply->head.version, 1u);
    EXPECT_EQ(reply->entries.next()->version, 1u);
    EXPECT_EQ(reply->entries.next()->value, 5);
  }
  const BatchOp bad[] = {add_op, absent_op};
  const Answer answer = ask(bad, {4, 2, 2});
  auto reply = decode_batch_reply(as_byte_span(answer.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->applied);
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kOk);
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kAlreadyExists);
  EXPECT_EQ(get("a").value(), "5");
}

TEST_F(RocksdbServerTest, Any_PipelinedMixAgreesWithAMap) {
  // Requests of one session may overtake each other, so a round writes each key once at most; the
  // versions that come back tell the order of the writes that took effect.
  TwinShard twin;
  testing::MutationMaker maker(Rng(11));
  size_t took_effect = 0;
  for (int round = 0; round < 60; ++round) {
    maker.clear();
    world_->set_time(testing::g_unix_ms + 10);
    std::map<std::string, PendingWrite> writes;
    for (int i = 0; i < 40; ++i) {
      const Mutation m = maker.make([&](std::string_view key) {
        const auto* row = twin.find(key);
        return row == nullptr ? uint64_t{1} : row->version;
      });
      if (writes.contains(std::string(m.key))) continue;
      const auto [method, request] = encoded(m);
      writes[std::string(m.key)] = {m, world_->send(method, request)};
      world_->send(Method::kGet, encoded_get(kRoute, m.key));
    }
    world_->wait_for_answers();
    std::map<uint64_t, PendingWrite> effective;
    for (const auto& [key, write] : writes) {
      const ReplyHead head = write.answer->head();
      if (head.status == KvStatus::kOk) {
        effective[head.version] = write;
      } else {
        const MutationResult result = twin.apply(write.mutation, testing::g_unix_ms);
        ASSERT_EQ(result, (MutationResult{head.status, head.version})) << key;
      }
    }
    took_effect += effective.size();
    for (const auto& [version, write] : effective) {
      const MutationResult result = twin.apply(write.mutation, testing::g_unix_ms);
      ASSERT_EQ(result.status, KvStatus::kOk);
      ASSERT_EQ(result.version, version);
    }
    for (int i = 0; i < 30; ++i) {
      const std::string key = "key" + std::to_string(i);
      const Answer answer = get(key);
      const auto* row = twin.find(key, testing::g_unix_ms);
      ASSERT_EQ(answer.status(), row == nullptr ? KvStatus::kNotFound : KvStatus::kOk);
      if (row != nullptr) {
        ASSERT_EQ(answer.value(), row->value);
      }
    }
  }
  const WorkerStats stats = world_->server().stats();
  EXPECT_EQ(stats.requests.commit_groups.sum, took_effect);
  EXPECT_LT(stats.requests.commit_groups.count, took_effect) << "writes should share commits";
}

TEST_F(RocksdbServerTest, Get_FromDiskThroughTheReaders) {
  for (int i = 0; i < 50; ++i) {
    world_->send(Method::kPut,
                 encoded_put(kRoute, "key" + std::to_string(i), std::string(100'000, static_cast<char>('a' + i % 26))));
  }
  world_->wait_for_answers();
  serve_again();
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 100; ++i) {
    answers.push_back(world_->send(Method::kGet, encoded_get(kRoute, "key" + std::to_string(i % 50))));
  }
  world_->wait_for_answers();
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]->value(), std::string(100'000, static_cast<char>('a' + i % 50 % 26)));
  }
  const WorkerStats stats = world_->server().stats();
  EXPECT_GE(stats.requests.reads_deferred, 50u);
  EXPECT_EQ(stats.storage.fetches, 50u) << "misses of one key share a read";
}

TEST_F(RocksdbServerTest, Get_ManyInOneBurstGetTheirOwnAnswers) {
  const auto value_of = [](int i) { return std::string(i % 3 == 0 ? 5000 : 10, static_cast<char>('a' + i % 26)); };
  for (int i = 0; i < 40; i += 2) ASSERT_EQ(put("key" + std::to_string(i), value_of(i)).status(), KvStatus::kOk);
  Route stale = kRoute;
  stale.epoch += 1;
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "key" + std::to_string(i);
    answers.push_back(world_->send(Method::kGet, i % 7 == 0 ? encoded_get(stale, key) : encoded_get(kRoute, key)));
  }
  world_->wait_for_answers();
  for (int i = 0; i < 40; ++i) {
    const Answer& answer = *answers[static_cast<size_t>(i)];
    if (i % 7 == 0) {
      EXPECT_EQ(answer.status(), KvStatus::kWrongShard) << i;
    } else if (i % 2 == 1) {
      EXPECT_EQ(answer.status(), KvStatus::kNotFound) << i;
    } else {
      EXPECT_EQ(answer.value(), value_of(i)) << i;
    }
  }
}

TEST_F(RocksdbServerTest, MultiGet_PartlyFromTheDisk) {
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(put(key, std::string(5000, *key)).status(), KvStatus::kOk);
  serve_again();
  EXPECT_EQ(get("b").value(), std::string(5000, 'b'));
  for (int round = 0; round < 2; ++round) {
    const Answer answer = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {"a", "none", "b", "c"}));
    auto reply = decode_multi_get_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(as_string_view(reply->entries.next()->value), std::string(5000, 'a'));
    EXPECT_EQ(reply->entries.next()->status, KvStatus::kNotFound);
    EXPECT_EQ(as_string_view(reply->entries.next()->value), std::string(5000, 'b'));
    EXPECT_EQ(as_string_view(reply->entries.next()->value), std::string(5000, 'c'));
  }
}

TEST_F(RocksdbServerTest, Scan_ShowsEveryWriteThatWasAnswered) {
  for (int i = 0; i < 30; ++i) {
    const std::string value = "value " + std::to_string(i);
    ASSERT_EQ(put("key", value).status(), KvStatus::kOk);
    const Answer answer = world_->ask(Method::kScan, encoded_scan({.route = kRoute, .rows_max = 9, .bytes_max = 999}));
    auto reply = decode_scan_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(as_string_view(reply->rows.next()->value), value);
  }
}

// --- Shards that are not there, or not yet.

class ShardServerTest : public ::testing::Test {
 protected:
  explicit ShardServerTest(const ShardServer::Options& options = {}) : world_(options) {}

  void serve() {
    server_.expect(kShard, kEpoch);
    server_.serve(kShard, *db_);
  }

  FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
  ServerWorld world_;
  ShardServer& server_ = world_.server();
};

TEST_F(ShardServerTest, Admit_UnknownShardIsWrongShard) {
  server_.set_map_revision(kRevision);
  const Answer answer = world_.ask(Method::kGet, encoded_get(kRoute, "k"));
  EXPECT_EQ(answer.status(), KvStatus::kWrongShard);
  EXPECT_EQ(answer.head().epoch, 0u);
  EXPECT_EQ(answer.head().map_revision, kRevision);
}

TEST_F(ShardServerTest, Admit_AnotherEpochIsWrongShardForEveryMethod) {
  server_.set_map_revision(kRevision);
  server_.expect(kShard, kEpoch + 1);
  server_.serve(kShard, *db_);
  const std::pair<Method, std::string> requests[] = {
      {Method::kGet, encoded_get(kRoute, "k")},
      {Method::kPut, encoded_put(kRoute, "k", "v")},
      {Method::kDelete, encoded_delete(kRoute, "k")},
      {Method::kMultiGet, encoded_multi_get(kRoute, {"k"})},
      {Method::kScan, encoded_scan({.route = kRoute, .rows_max = 1, .bytes_max = 1})},
  };
  for (const auto& [method, request] : requests) {
    const Answer answer = world_.ask(method, request);
    EXPECT_EQ(answer.status(), KvStatus::kWrongShard) << method_name(method);
    EXPECT_EQ(answer.head().epoch, kEpoch + 1);
  }
  EXPECT_EQ(server_.stats().storage.log.records, 0u);
}

TEST_F(ShardServerTest, Admit_NewerMapThanOursIsReportedOnce) {
  std::vector<uint64_t> named;
  server_.on_newer_map([&](uint64_t revision) { named.push_back(revision); });
  server_.set_map_revision(kRevision - 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world_.ask(Method::kGet, encoded_get(kRoute, "k")).status(), KvStatus::kWrongShard);
  }
  EXPECT_THAT(named, ::testing::ElementsAre(kRevision));
}

TEST_F(ShardServerTest, Admit_OpeningShardIsRefusedAndThenServed) {
  server_.expect(kShard, kEpoch);
  const Answer opening = world_.ask(Method::kPut, encoded_put(kRoute, "k", "v"));
  EXPECT_EQ(opening.status(), KvStatus::kWrongShard);
  EXPECT_THAT(std::string(opening.head().text), HasSubstr("being opened"));
  server_.serve(kShard, *db_);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kOk);
}

TEST_F(ShardServerTest, Admit_FailedShardSaysWhy) {
  server_.expect(kShard, kEpoch);
  server_.set_failed(kShard, "the disk is on fire");
  const Answer answer = world_.ask(Method::kGet, encoded_get(kRoute, "k"));
  EXPECT_EQ(answer.status(), KvStatus::kWrongShard);
  EXPECT_EQ(answer.head().text, "the disk is on fire");
}

TEST_F(ShardServerTest, Admit_DrainingServesNothing) {
  serve();
  server_.drain();
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kWrongShard);
}

TEST_F(ShardServerTest, Admit_MalformedRequestsAreInvalid) {
  serve();
  EXPECT_EQ(world_.ask(Method::kGet, "").status(), KvStatus::kInvalidArgument);
  EXPECT_EQ(world_.ask(Method::kGet, "too short for a header").status(), KvStatus::kInvalidArgument);
  const std::string get = encoded_get(kRoute, "key");
  for (const Method method :
       {Method::kGet, Method::kPut, Method::kDelete, Method::kMultiGet, Method::kPatch, Method::kScan}) {
    EXPECT_EQ(world_.ask(method, get + "and more").status(), KvStatus::kInvalidArgument);
  }
}

// --- Bounds and lifetimes.

TEST_F(ShardServerTest, Write_FailureOfTheStorageIsToldAndEndsWrites) {
  serve();
  world_.device()->crash_after(0);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kStorageFailed);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kShardReadOnly);
}

class FewWritesServerTest : public ShardServerTest {
 protected:
  static ShardServer::Options few() {
    ShardServer::Options options;
    options.engine.unfinished_max = 8;
    return options;
  }
  FewWritesServerTest() : ShardServerTest(few()) {}
};

TEST_F(FewWritesServerTest, Write_MoreThanMayWaitAreRefusedAndTheRestIsKept) {
  serve();
  world_.gate().close();
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 40; ++i) {
    answers.push_back(world_.send(Method::kPut, encoded_put(kRoute, "key" + std::to_string(i), "v")));
  }
  world_.wait_for([&] { return server_.stats().storage.writes_refused > 0; });
  world_.gate().open();
  world_.wait_for_answers();
  std::map<KvStatus, size_t> count;
  for (const auto& answer : answers) ++count[answer->status()];
  EXPECT_EQ(count[KvStatus::kOk] + count[KvStatus::kResourceExhausted], answers.size());
  EXPECT_GE(count[KvStatus::kOk], 8u);
  EXPECT_GE(count[KvStatus::kResourceExhausted], 1u);
}

class FewRequestsServerTest : public ShardServerTest {
 protected:
  static ShardServer::Options few() {
    ShardServer::Options options;
    options.pending_max = 4;
    return options;
  }
  FewRequestsServerTest() : ShardServerTest(few()) {}
};

TEST_F(FewRequestsServerTest, Begin_RefusesAboveTheBoundOfOperations) {
  serve();
  world_.gate().close();
  for (int i = 0; i < 6; ++i) world_.send(Method::kPut, encoded_put(kRoute, "key", "v"));
  world_.wait_for(
      [&] { return server_.stats().requests.answers[2][static_cast<size_t>(KvStatus::kResourceExhausted)] == 2; });
  EXPECT_EQ(server_.waiting_count(), 4u);
  world_.gate().open();
  world_.wait_for_answers();
  EXPECT_EQ(server_.stats().requests.answers[2][static_cast<size_t>(KvStatus::kOk)], 4u);
}

TEST_F(ShardServerTest, Remove_WaitsForOperationsInFlight) {
  serve();
  world_.gate().close();
  const auto answer = world_.send(Method::kPut, encoded_put(kRoute, "key", "v"));
  world_.wait_for([&] { return server_.waiting_count() == 1; });
  world_.gate().wait_until_waiting();
  bool idle = false;
  server_.remove(kShard, [&] { idle = true; });
  const auto late = world_.send(Method::kGet, encoded_get({3, 1, kEpoch, 0}, "key"));
  world_.wait_for([&] { return late->rpc.ok(); });
  EXPECT_EQ(late->status(), KvStatus::kWrongShard);
  EXPECT_FALSE(idle);
  world_.gate().open();
  world_.wait_for([&] { return idle; });
  world_.wait_for_answers();
  EXPECT_EQ(answer->status(), KvStatus::kOk);
  EXPECT_EQ(databases_.disk(kShard).state().index, 1u) << "the database has everything";
}

TEST_F(RocksdbServerTest, Remove_WaitsForALargeValueOnItsWay) {
  ASSERT_EQ(put("large", std::string(1 << 20, 'v')).status(), KvStatus::kOk);
  serve_again();  // so large a value is sent from the database
  const auto answer = world_->send(Method::kGet, encoded_get(kRoute, "large"));
  world_->wait_for([&] { return world_->server().stats().pending_requests > 0; });
  bool idle = false;
  world_->server().remove(kShard, [&] { idle = true; });
  EXPECT_FALSE(idle);
  world_->wait_for_answers();
  EXPECT_EQ(answer->value(), std::string(1 << 20, 'v'));
  // The client says that it has it all; only then may the database be closed.
  world_->wait_for([&] { return idle; });
  db_.reset();
}

TEST_F(ShardServerTest, Remove_AtOnceIfNeverServed) {
  server_.expect(kShard, kEpoch);
  bool idle = false;
  server_.remove(kShard, [&] { idle = true; });
  EXPECT_TRUE(idle);
}

TEST_F(ShardServerTest, Remove_SoonWhenIdle) {
  serve();
  bool idle = false;
  server_.remove(kShard, [&] { idle = true; });
  world_.wait_for([&] { return idle; });
  EXPECT_EQ(server_.stats().shards, 0u);
}

TEST_F(RocksdbServerTest, Stats_CountByMethodAndStatusAndBytes) {
  put("small", "12345");
  put("cached", std::string(1000, 'c'));
  get("small");
  get("cached");
  get("none");
  const RequestStats stats = world_->server().stats().requests;
  const auto at = [&](Method method, KvStatus status) {
    return stats.answers[static_cast<size_t>(method)][static_cast<size_t>(status)];
  };
  EXPECT_EQ(at(Method::kPut, KvStatus::kOk), 2u);
  EXPECT_EQ(at(Method::kGet, KvStatus::kOk), 2u);
  EXPECT_EQ(at(Method::kGet, KvStatus::kNotFound), 1u);
  EXPECT_EQ(stats.value_copied_bytes, 5u);
  EXPECT_EQ(stats.value_zero_copy_bytes, 1000u);
  WorkerStats worker = world_->server().stats();
  const std::string text = format_metrics(std::span(&worker, 1));
  EXPECT_THAT(text, HasSubstr("skua_requests_total{worker=\"0\",method=\"GET\",status=\"OK\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("skua_commit_group_mutations_count{worker=\"0\"} 2\n"));
}

}  // namespace
}  // namespace skua::kv
