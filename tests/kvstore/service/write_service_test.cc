#include "kvstore/service/write_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>

#include "kvstore/codec/row.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/shard/engine_testing.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_delete;
using testing::encoded_mutation;
using testing::encoded_patch;
using testing::encoded_put;
using ::testing::HasSubstr;
using testing::kRoute;
using testing::LargeValuesServerTest;
using testing::RocksdbServerTest;

std::string encoded_add(std::string_view key, int64_t delta, const RequestId& id = {}) {
  return encoded_mutation({kRoute, mutations::add(key, delta), id});
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

/// The answer and the counts are those of the first time, also after a restart. An edit without effect is kept in
/// memory only.
TEST_F(RocksdbServerTest, Edit_CountsOnceHoweverOftenItIsSent) {
  const auto edit = [&](const std::string& fields, const RequestId& id) {
    Mutation mutation = mutations::edit("row", as_byte_span(fields), true);
    mutation.mark.row = true;
    HeadBuffer buffer;
    const MutationRequest request{kRoute, mutation, id, Durability::kDefault};
    std::string bytes(as_string_view(encode_mutation_head(request, buffer).value()));
    const Answer answer = world_->ask(Method::kPatch, bytes + fields);
    const auto reply = decode_add_reply(as_byte_span(answer.bytes));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(AddReply());
  };
  std::string fields;
  append_field(fields, {"a", as_byte_span("1")});
  append_field(fields, {"b", as_byte_span("2")});
  std::string removal;
  append_field(removal, {.name = "b", .is_removed = true});
  for (int i = 0; i < 3; ++i) {
    const AddReply made = edit(fields, {9, 1, 1});
    EXPECT_EQ(PatchCounts::of_word(made.value), (PatchCounts{2, 0, 2}));
    EXPECT_EQ(made.write.from_record, i > 0);
    if (i == 1) serve_again();
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(PatchCounts::of_word(edit(removal, {9, 2, 1}).value), (PatchCounts{0, 1, 1}));
    if (i == 1) serve_again();
  }
  for (int i = 0; i < 2; ++i) {
    const AddReply none = edit(removal, {9, 3, 1});
    EXPECT_EQ(none.write.head.status, KvStatus::kOk);
    EXPECT_EQ(none.write.durability, Durability::kSync);
    EXPECT_EQ(none.write.from_record, i > 0);
    EXPECT_EQ(PatchCounts::of_word(none.value), (PatchCounts{0, 0, 1}));
  }
  world_->server().set_growth(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(edit(fields, {9, 4, 1}).write.head.status, KvStatus::kResourceExhausted);
  std::string last;
  append_field(last, {.name = "a", .is_removed = true});
  EXPECT_EQ(edit(last, {9, 5, 1}).write.head.status, KvStatus::kResourceExhausted) << "it may write a row";
  EXPECT_EQ(PatchCounts::of_word(edit(removal, {9, 2, 1}).value), (PatchCounts{0, 1, 1})) << "it was done";
  world_->server().set_growth(absl::OkStatus());
  EXPECT_EQ(PatchCounts::of_word(edit(last, {9, 6, 1}).value), (PatchCounts{0, 1, 0}));
  EXPECT_EQ(get("row").status(), KvStatus::kNotFound);
  EXPECT_EQ(PatchCounts::of_word(edit(last, {9, 6, 1}).value), (PatchCounts{0, 1, 0}));
  EXPECT_EQ(edit(last, {9, 7, 1}).write.head.status, KvStatus::kNotFound);
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
    const MutationRequest request{kRoute, mutations::put("key", as_byte_span("v")), {}, asked};
    const Answer answer = world_->ask(Method::kPut, encoded_mutation(request));
    const auto reply = decode_write_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->durability, asked == Durability::kDefault ? Durability::kSync : asked);
  }
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
    auto entry = reply->entries.begin();
    EXPECT_EQ(entry->version, 1u);
    EXPECT_EQ((++entry)->value, 5);
  }
  const Mutation bad[] = {add_op, absent_op};
  const Answer answer = ask(bad, {4, 2, 2});
  auto reply = decode_batch_reply(as_byte_span(answer.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->applied);
  auto entry = reply->entries.begin();
  EXPECT_EQ(entry->status, KvStatus::kOk);
  EXPECT_EQ((++entry)->status, KvStatus::kAlreadyExists);
  EXPECT_EQ(get("a").value(), "5");
}

}  // namespace
}  // namespace skua::kv
