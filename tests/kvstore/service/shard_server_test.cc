#include "kvstore/service/shard_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kvstore/codec/row.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_life.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_delete;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_mutation;
using testing::encoded_patch;
using testing::encoded_put;
using testing::encoded_scan;
using ::testing::HasSubstr;
using testing::kEpoch;
using testing::kRevision;
using testing::kRoute;
using testing::kShard;
using testing::LargeValuesServerTest;
using testing::RocksdbServerTest;
using testing::ShardServerTest;
using testing::TwinShard;

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
  EXPECT_THAT(std::string(answer.head().text), HasSubstr("at most 16,777,216 are allowed"));
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

std::string encoded_add(std::string_view key, int64_t delta, const RequestId& id = {}) {
  return encoded_mutation({kRoute, Mutation::add(key, delta), id});
}

/// A mutation as a request.
std::pair<Method, std::string> encoded(const Mutation& m) {
  return {method_of(m.kind), encoded_mutation({kRoute, m})};
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
    world_->ask(Method::kPut, encoded_mutation({kRoute, Mutation::put("key", as_byte_span(value), {}, 100)}));
    GetRequest request{kRoute, "key"};
    request.wishes.ttl = true;
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

TEST_F(RocksdbServerTest, Get_TellsTheSizeOfAValueWithoutTheValue) {
  HeadBuffer head;
  for (const size_t size : {size_t{0}, size_t{3}, size_t{214}, size_t{1000}, size_t{100'000}}) {
    const std::string value(size, 'v');
    world_->ask(Method::kPut, encoded_mutation({kRoute, Mutation::put("key", as_byte_span(value), {}, 100)}));
    GetRequest request{kRoute, "key"};
    request.wishes = {.ttl = true, .mark = false, .size_only = true};
    const std::string asked(as_string_view(encode_get(request, head).value()));
    const auto check = [&](std::string_view from) {
      const Answer answer = world_->ask(Method::kGet, asked);
      const GetReply reply = get_reply(answer);
      EXPECT_TRUE(reply.size_only) << from;
      EXPECT_EQ(reply.value_bytes, size) << from;
      EXPECT_EQ(reply.ttl_ms, 100u) << from;
      EXPECT_LT(answer.bytes.size(), 64u) << from;
    };
    check("from memory");
    serve_again();
    check("from the disk");
  }
}

TEST_F(RocksdbServerTest, Reads_TellMarksIfTheyAreAskedFor) {
  HeadBuffer head;
  const std::vector<std::string_view> keys = {"key", "none", "plain"};
  put("plain", "p");
  for (const size_t size : {size_t{3}, size_t{212}, size_t{1000}, size_t{20'000}}) {
    const std::string value(size, 'v');
    Mutation put = Mutation::put("key", as_byte_span(value), {}, 100);
    put.mark.tag = 0xfeedf00d;
    world_->ask(Method::kPut, encoded_mutation({kRoute, put}));
    GetRequest request{kRoute, "key"};
    request.wishes.ttl = true;
    request.wishes.mark = true;
    const std::string with_both(as_string_view(encode_get(request, head).value()));
    const auto check = [&] {
      const Answer answer = world_->ask(Method::kGet, with_both);
      const GetReply reply = get_reply(answer);
      EXPECT_EQ(reply.mark, (RecordMark{0xfeedf00d, false})) << size;
      EXPECT_EQ(reply.ttl_ms, 100u) << size;
      EXPECT_EQ(as_string_view(reply.value), value) << size;
      EXPECT_EQ(get("key").value(), value);
      std::vector<std::byte> buffer(1000);
      const std::string many(as_string_view(encode_multi_get(kRoute, keys, buffer, true).value()));
      const Answer page = world_->ask(Method::kMultiGet, many);
      auto entries = decode_multi_get_reply(as_byte_span(page.bytes)).value().entries;
      const auto first = entries.next();
      EXPECT_EQ(first->mark.tag, 0xfeedf00d);
      EXPECT_EQ(as_string_view(first->value), value);
      EXPECT_EQ(entries.next()->status, KvStatus::kNotFound);
      EXPECT_TRUE(entries.next()->mark.empty());
      const std::string scan(as_string_view(encode_scan({kRoute, "", "", 10, 100'000, "", true}, buffer).value()));
      const Answer rows = world_->ask(Method::kScan, scan);
      auto walk = decode_scan_reply(as_byte_span(rows.bytes)).value().rows;
      EXPECT_EQ(walk.next()->mark.tag, 0xfeedf00d);
      EXPECT_TRUE(walk.next()->mark.empty());
      ScanRequest keys_only{.route = kRoute, .rows_max = 10, .bytes_max = 100, .keys_only = true};
      const std::string wants_keys(as_string_view(encode_scan(keys_only, buffer).value()));
      const Answer bare = world_->ask(Method::kScan, wants_keys);
      auto bare_rows = decode_scan_reply(as_byte_span(bare.bytes)).value().rows;
      ASSERT_EQ(bare_rows.size(), 2u);
      EXPECT_TRUE(bare_rows.next()->value.empty());
      ScanRequest counts{.route = kRoute, .rows_max = 1, .bytes_max = 1, .count_only = true};
      const std::string wants_count(as_string_view(encode_scan(counts, buffer).value()));
      const Answer count = world_->ask(Method::kScan, wants_count);
      const auto counted = decode_scan_reply(as_byte_span(count.bytes)).value();
      EXPECT_EQ(counted.counted, 1u);
      EXPECT_TRUE(counted.has_more);
    };
    check();
    serve_again();
    check();
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
  world_->server().shards().remove(kShard, [&] { db_.reset(); });
  world_->wait_for([&] { return db_ == nullptr; });
  for (int life = 0; life < 2; ++life) {
    db_.reset();
    db_ = engine_->open_db(directory_.path(), kShard).value();
    ASSERT_TRUE(begin_life(*db_).ok());
  }
  world_->server().shards().expect(kShard, kEpoch);
  world_->server().shards().serve(kShard, *db_);
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
    const MutationRequest request{kRoute, Mutation::put("key", as_byte_span("v")), {}, asked};
    const Answer answer = world_->ask(Method::kPut, encoded_mutation(request));
    const auto reply = decode_write_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->durability, asked == Durability::kDefault ? Durability::kSync : asked);
  }
}

std::string encoded_batch(std::span<const Mutation> ops, const RequestId& id) {
  BatchOpsBuilder builder;
  for (const Mutation& op : ops) EXPECT_TRUE(builder.add(op).ok());
  BatchRequest request;
  request.route = kRoute;
  request.ops = builder.ops();
  request.id = id;
  HeadBuffer head;
  std::string bytes(as_string_view(encode_batch_head(request, head).value()));
  return bytes.append(as_string_view(request.ops.bytes()));
}

/// Nobody but a client that breaks the rules gives two writes one number.
TEST_F(RocksdbServerTest, Number_OfAnotherWriteIsRefused) {
  Mutation put_op;
  put_op.key = "a";
  put_op.value = as_byte_span("1");
  Mutation absent_op = put_op;
  absent_op.condition = Condition::if_absent();
  Mutation remove_op;
  remove_op.kind = Mutation::Kind::kDelete;
  remove_op.key = "nothing";
  const Mutation two[] = {put_op, put_op};
  const Mutation three[] = {put_op, put_op, put_op};
  const Mutation refused[] = {put_op, absent_op};
  const Mutation idle[] = {remove_op};
  struct Write {
    Method method;
    std::function<std::string(const RequestId&)> request;
  };
  const auto batch = [](std::span<const Mutation> ops) {
    return Write{Method::kBatch, [ops](const RequestId& id) { return encoded_batch(ops, id); }};
  };
  const Write add{Method::kAdd, [](const RequestId& id) { return encoded_add("counter", 5, id); }};
  put("text", "x");
  const Write refused_add{Method::kAdd, [](const RequestId& id) { return encoded_add("text", 5, id); }};
  const Write single[] = {add, refused_add};
  const Write many[] = {batch(two), batch(three), batch(refused), batch(idle)};
  uint64_t number = 0;
  const auto expect_refused = [&](const Write& first, const Write& second) {
    ++number;
    // Known already, and under way still.
    const RequestId id{7, number, number};
    world_->ask(first.method, first.request(id));
    EXPECT_EQ(world_->ask(second.method, second.request(id)).status(), KvStatus::kInvalidArgument) << number;
    ++number;
    const RequestId twins{7, number, number};
    const auto one = world_->send(first.method, first.request(twins));
    const Answer other = world_->ask(second.method, second.request(twins));
    world_->wait_for([&] { return !absl::IsUnknown(one->rpc); });
    // Either of them may have come first.
    const int refused =
        (one->status() == KvStatus::kInvalidArgument ? 1 : 0) + (other.status() == KvStatus::kInvalidArgument ? 1 : 0);
    EXPECT_EQ(refused, 1) << number;
  };
  for (const Write& one : single) {
    for (const Write& other : many) {
      expect_refused(one, other);
      expect_refused(other, one);
    }
  }
  expect_refused(many[0], many[1]);
  expect_refused(many[1], many[0]);
}

TEST_F(RocksdbServerTest, Batch_AllOrNothing) {
  const auto ask = [&](std::span<const Mutation> ops, const RequestId& id) {
    return world_->ask(Method::kBatch, encoded_batch(ops, id));
  };
  Mutation put_op;
  put_op.key = "a";
  put_op.value = as_byte_span("1");
  Mutation add_op;
  add_op.kind = Mutation::Kind::kAdd;
  add_op.key = "a";
  add_op.delta = 4;
  Mutation absent_op = put_op;
  absent_op.condition = Condition::if_absent();
  const Mutation good[] = {put_op, add_op};
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
  const Mutation bad[] = {add_op, absent_op};
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

TEST_F(ShardServerTest, Admit_UnknownShardIsWrongShard) {
  server_.set_map_revision(kRevision);
  const Answer answer = world_.ask(Method::kGet, encoded_get(kRoute, "k"));
  EXPECT_EQ(answer.status(), KvStatus::kWrongShard);
  EXPECT_EQ(answer.head().epoch, 0u);
  EXPECT_EQ(answer.head().map_revision, kRevision);
}

TEST_F(ShardServerTest, Admit_AnotherEpochIsWrongShardForEveryMethod) {
  server_.set_map_revision(kRevision);
  server_.shards().expect(kShard, kEpoch + 1);
  server_.shards().serve(kShard, *db_);
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

TEST_F(ShardServerTest, Admit_ServedShardTakesItsNewestEpochAlone) {
  server_.shards().expect(kShard, kEpoch);
  server_.shards().serve(kShard, *db_);
  ASSERT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kOk);
  server_.shards().expect(kShard, kEpoch + 1);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(kRoute, "k")).status(), KvStatus::kWrongShard);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "w")).status(), KvStatus::kWrongShard);
  Route newer = kRoute;
  newer.epoch = kEpoch + 1;
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(newer, "k")).status(), KvStatus::kOk);
}

TEST_F(ShardServerTest, Admit_NewerMapThanOursIsReportedNowAndThen) {
  int hints = 0;
  server_.on_newer_map([&] { ++hints; });
  server_.set_map_revision(kRevision - 1);
  Route forged = kRoute;
  forged.map_revision = UINT64_MAX;
  for (const Route& route : {forged, kRoute, kRoute}) {
    EXPECT_EQ(world_.ask(Method::kGet, encoded_get(route, "k")).status(), KvStatus::kWrongShard);
  }
  EXPECT_EQ(hints, 1) << "many clients, one question";
  world_.pass(kMapHintPauseNs);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(kRoute, "k")).status(), KvStatus::kWrongShard);
  EXPECT_EQ(hints, 2) << "whatever has been named before";
}

TEST_F(ShardServerTest, Admit_OpeningShardIsRefusedAndThenServed) {
  server_.shards().expect(kShard, kEpoch);
  const Answer opening = world_.ask(Method::kPut, encoded_put(kRoute, "k", "v"));
  EXPECT_EQ(opening.status(), KvStatus::kWrongShard);
  EXPECT_THAT(std::string(opening.head().text), HasSubstr("being opened"));
  server_.shards().serve(kShard, *db_);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kOk);
}

TEST_F(ShardServerTest, Admit_FailedShardSaysWhy) {
  server_.shards().expect(kShard, kEpoch);
  server_.shards().set_failed(kShard, "the disk is on fire");
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

}  // namespace
}  // namespace skua::kv
