// What nodes learned from version to version: checks in batches, marks of records, scans without values. And that old
// nodes are not asked for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/client/batch.h"
#include "kvstore/client/client_core.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/client/client_calls_testing.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using ::testing::AllOf;
using testing::get;
using ::testing::HasSubstr;
using testing::put;

BatchResult ask_batch(ClientWorld& world, const Batch& batch) {
  Got<BatchResult> got;
  EXPECT_TRUE(world.client->batch("t", batch, {}, got.callback()).ok());
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  return std::move(got.result);
}

ScanResult ask_scan(ClientWorld& world, const ScanRange& range) {
  Got<ScanResult> got;
  EXPECT_TRUE(world.client->scan("t", range, {}, got.callback()).ok());
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  return std::move(got.result);
}

/// A node, its shards, and a client.
struct OneNode : ClientWorld {
  explicit OneNode(uint32_t shards = 1) : ClientWorld(1, {}) {
    publish(shards);
    start_client();
  }
};

TEST(Batch, IsAppliedOnlyIfCheckedKeysHaveTheVersions) {
  OneNode world;
  const WriteResult read = put(world, "read", "x");
  const BatchResult done = ask_batch(world, Batch().check("read", read.version).check("none", 0).put("a", "1"));
  ASSERT_TRUE(done.ok()) << done.status;
  EXPECT_EQ(done.ops[0].version, read.version);
  ASSERT_TRUE(put(world, "read", "y").ok());
  const BatchResult refused = ask_batch(world, Batch().put("a", "2").check("read", read.version));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status.ToString(),
              AllOf(HasSubstr("operation 2"), HasSubstr("check \"read\""), HasSubstr("VERSION_MISMATCH")));
  EXPECT_EQ(get(world, "a").value.bytes(), "1");
  EXPECT_EQ(Batch().check("", 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Mark, IsWrittenAndReadIfAskedFor) {
  OneNode world;
  ASSERT_TRUE(put(world, "a", "1", {.mark = {.tag = 7, .row = false}}).ok());
  ASSERT_TRUE(ask_batch(world, Batch().put("b", "2", {.mark = {.tag = 8, .row = false}}).put("c", "3")).ok());
  EXPECT_EQ(get(world, "a").mark, RecordMark());
  EXPECT_EQ(get(world, "a", {.with_mark = true}).mark.tag, 7u);
  EXPECT_EQ(get(world, "a", {.with_mark = true}).value.bytes(), "1");
  EXPECT_EQ(get(world, "c", {.with_mark = true}).mark, RecordMark());
  const FieldUpdate fields[] = {{"f", "v"}};
  ASSERT_TRUE(
      ask_batch(world, Batch().patch("d", fields, {.create_if_missing = true, .mark = {.tag = 0, .row = true}})).ok());
  EXPECT_EQ(get(world, "d", {.with_mark = true}).mark, (RecordMark{0, true}));
}

WriteResult patch(ClientWorld& world, const std::vector<FieldUpdate>& fields, const PatchOptions& options) {
  Got<WriteResult> got;
  const absl::Status accepted = world.client->patch("t", "row", fields, options, got.callback());
  if (!accepted.ok()) {
    WriteResult refused;
    refused.status = accepted;
    return refused;
  }
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  return std::move(got.result);
}

TEST(Patch, RemovesAndCountsFields) {
  OneNode world;
  const PatchOptions creates{.create_if_missing = true, .count_fields = true};
  EXPECT_EQ(patch(world, {{"a", "1"}, {"b", "2"}}, creates).fields, (PatchCounts{2, 0, 2}));
  const WriteResult removed = patch(world, {{.name = "a", .remove = true}, {"c", "3"}}, {});
  ASSERT_TRUE(removed.ok()) << removed.status;
  EXPECT_EQ(removed.fields, (PatchCounts{1, 1, 2}));
  EXPECT_EQ(removed.value, 0);
  const WriteResult none = patch(world, {{.name = "a", .remove = true}}, {});
  EXPECT_EQ(none.fields, (PatchCounts{0, 0, 2}));
  EXPECT_EQ(none.version, removed.version);
  EXPECT_EQ(patch(world, {{"b", "3"}}, {}).fields, PatchCounts()) << "nobody asked";
  EXPECT_EQ(patch(world, {{.name = "b", .remove = true}, {.name = "c", .remove = true}}, {}).fields,
            (PatchCounts{0, 2, 0}));
  EXPECT_EQ(get(world, "row").status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(patch(world, {{.name = "b", .remove = true}}, creates).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(patch(world, {{"b", "value", true}}, {}).status.code(), absl::StatusCode::kInvalidArgument);
  const std::vector<FieldUpdate> removal{{.name = "b", .remove = true}};
  EXPECT_EQ(Batch().patch("row", removal).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Patch, ThatRemovesFieldsIsNotSentToOldNodes) {
  OneNode world;
  world.node(0).features = kNodeFeatures & ~kFeatureRowEdits;
  for (const PatchOptions& options : {PatchOptions{}, PatchOptions{.count_fields = true}}) {
    const bool counts = options.count_fields;
    const WriteResult refused = patch(world, {{.name = "a", .value = counts ? "1" : "", .remove = !counts}}, options);
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(refused.status.ToString(), HasSubstr("patches that remove or count fields"));
  }
  EXPECT_TRUE(patch(world, {{"a", "1"}}, {.create_if_missing = true}).ok());
}

TEST(MultiGet, OfWhatMemoryHasLeavesOutTheRest) {
  OneNode world;
  ASSERT_TRUE(put(world, "a", "1").ok());
  ASSERT_TRUE(put(world, "cold", "2").ok());
  world.node(0).cold_keys = {"cold"};
  const std::vector<std::string_view> keys = {"a", "cold", "none"};
  const auto ask = [&](const ReadOptions& options) {
    Got<MultiGetResult> got;
    EXPECT_TRUE(world.client->multi_get("t", keys, options, got.callback()).ok());
    EXPECT_TRUE(world.run_until([&] { return got.here(); }));
    return std::move(got.result);
  };
  MultiGetResult some = ask({.memory_only = true});
  EXPECT_TRUE(some.ok()) << some.status;
  EXPECT_EQ(some.entries[0].value, "1");
  EXPECT_EQ(some.entries[1].status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(some.entries[2].status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ask({}).entries[1].value, "2");
  Got<GetResult> got;
  EXPECT_EQ(world.client->get("t", "a", {.memory_only = true}, got.callback()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MultiGet, OfWhatMemoryHasIsNotSentToOldNodes) {
  OneNode world;
  world.node(0).features = kNodeFeatures & ~kFeatureMemoryOnly;
  const std::vector<std::string_view> keys = {"a", "b"};
  Got<MultiGetResult> got;
  EXPECT_TRUE(world.client->multi_get("t", keys, {.memory_only = true}, got.callback()).ok());
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(got.result.status.ToString(), HasSubstr("reads of what memory has"));
}

TEST(Get, OfASizeHasNoValue) {
  OneNode world;
  ASSERT_TRUE(put(world, "a", std::string(100'000, 'v')).ok());
  const GetResult sized = get(world, "a", {.with_mark = true, .size_only = true});
  ASSERT_TRUE(sized.ok()) << sized.status;
  EXPECT_EQ(sized.value_bytes, 100'000u);
  EXPECT_TRUE(sized.value.bytes().empty());
  EXPECT_EQ(get(world, "none", {.size_only = true}).status.code(), absl::StatusCode::kNotFound);
}

/// A row with the fields a, b, and so on.
std::string row_of(std::initializer_list<std::string_view> values) {
  std::string row;
  char name = 'a';
  for (const std::string_view value : values) {
    append_field(row, {std::string_view(&name, 1), as_byte_span(value)});
    ++name;
  }
  return row;
}

TEST(Get, OfFields_BringsThoseThatTheRowHas) {
  OneNode world;
  ASSERT_TRUE(put(world, "row", row_of({"1", "2", "3"})).ok());
  const std::vector<std::string_view> names = {"c", "none", "b"};
  const GetResult some = get(world, "row", {.with_mark = true, .fields = names});
  ASSERT_TRUE(some.ok()) << some.status;
  std::string expected;
  append_field(expected, {"b", as_byte_span("2")});
  append_field(expected, {"c", as_byte_span("3")});
  EXPECT_EQ(some.value.bytes(), expected);
  EXPECT_NE(some.version, 0u);
  EXPECT_EQ(get(world, "row").value.bytes(), row_of({"1", "2", "3"})) << "the next GET has no names";
  EXPECT_EQ(get(world, "none", {.fields = names}).status.code(), absl::StatusCode::kNotFound);

  ASSERT_TRUE(put(world, "text", "no row").ok());
  const GetResult refused = get(world, "text", {.fields = names});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status.ToString(), HasSubstr("not a row of fields: read it whole"));
}

TEST(Get, OfFields_NamesOutliveTheCall) {
  OneNode world;
  ASSERT_TRUE(put(world, "row", row_of({"1", "2"})).ok());
  Got<GetResult> got;
  {
    std::string name = "b";
    const std::vector<std::string_view> names = {name};
    ASSERT_TRUE(world.client->get("t", "row", {.fields = names}, got.callback()).ok());
    name = "x";
  }
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  std::string expected;
  append_field(expected, {"b", as_byte_span("2")});
  EXPECT_EQ(got.result.value.bytes(), expected);
}

TEST(Get, OfFields_Refusals) {
  OneNode world;
  const auto is_refused = [&](const ReadOptions& options) {
    Got<GetResult> got;
    EXPECT_EQ(world.client->get("t", "row", options, got.callback()).code(), absl::StatusCode::kInvalidArgument);
  };
  const std::vector<std::string_view> empty = {""};
  const std::vector<std::string_view> names = {"a"};
  const std::vector<std::string_view> too_many(1025, "a");
  is_refused({.fields = empty});
  is_refused({.fields = too_many});
  is_refused({.size_only = true, .fields = names});
  Got<MultiGetResult> many;
  EXPECT_EQ(world.client->multi_get("t", names, {.fields = names}, many.callback()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Scan, WithoutValuesAndOnlyCounting) {
  OneNode world(3);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(put(world, "key" + std::to_string(i), "value").ok());
  const ScanResult keys = ask_scan(world, {.limit = 7, .keys_only = true});
  ASSERT_EQ(keys.rows.size(), 7u);
  EXPECT_EQ(keys.rows[0].key, "key0");
  EXPECT_EQ(keys.rows[0].value, "");
  EXPECT_TRUE(keys.has_more);
  const ScanResult count = ask_scan(world, {.limit = 7, .count_only = true});
  ASSERT_TRUE(count.ok()) << count.status;
  EXPECT_EQ(count.count, 40u);
  EXPECT_TRUE(count.rows.empty());
  EXPECT_FALSE(count.has_more);
  EXPECT_EQ(ask_scan(world, {.start = "key1", .end = "key2", .count_only = true}).count, 11u);
  Got<ScanResult> got;
  EXPECT_EQ(world.client->scan("t", {.keys_only = true, .count_only = true}, {}, got.callback()).code(),
            absl::StatusCode::kInvalidArgument);
}

/// A node that counts and says each time that it goes on behind the same key.
TEST(Scan, ACountThatDoesNotGetAheadFails) {
  OneNode world;
  int pages = 0;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    if (static_cast<Method>(call.method) != Method::kScan) return false;
    ++pages;
    ScanReplyBuilder page(10, 10);
    EXPECT_TRUE(page.count({"key", 0, {}}));
    rpc::MessagePtr message = world.node(0).endpoint().make_message();
    message->append_copy(page.finish({}, true));
    call.reply.reply(std::move(message));
    return true;
  };
  const ScanResult count = ask_scan(world, {.count_only = true});
  EXPECT_EQ(count.status.code(), absl::StatusCode::kInternal) << count.status;
  EXPECT_EQ(count.count, 0u);
  EXPECT_EQ(pages, 2);
}

TEST(Scan, ACountHasATokenOfEachShard) {
  OneNode world(3);
  int pages = 0;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    if (static_cast<Method>(call.method) != Method::kScan) return false;
    const auto request = decode_scan(call.request.bytes());
    ScanReplyBuilder page(10, 10);
    const std::string key = "key" + std::to_string(++pages);
    EXPECT_TRUE(page.count({key, 0, {}}));
    rpc::MessagePtr message = world.node(0).endpoint().make_message();
    message->append_copy(page.finish({.index = 100 - static_cast<uint64_t>(pages)}, pages < 7));
    call.reply.reply(std::move(message));
    return request.ok();
  };
  const ScanResult count = ask_scan(world, {.count_only = true});
  ASSERT_TRUE(count.ok()) << count.status;
  EXPECT_EQ(count.count, static_cast<uint64_t>(pages));
  EXPECT_EQ(count.tokens.size(), 3u);
}

TEST(Features, OfLaterVersionsAreNotAskedOfOldNodes) {
  OneNode world;
  world.node(0).features = 0;
  const auto is_refused = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnimplemented) << outcome.status;
    EXPECT_THAT(outcome.status.ToString(), HasSubstr("upgrade all nodes"));
    EXPECT_FALSE(outcome.may_have_been_applied);
  };
  is_refused(put(world, "a", "1", {.mark = {.tag = 7, .row = false}}));
  is_refused(get(world, "a", {.with_mark = true}));
  is_refused(get(world, "a", {.size_only = true}));
  const std::vector<std::string_view> names = {"f"};
  is_refused(get(world, "a", {.fields = names}));
  is_refused(ask_batch(world, Batch().put("a", "1", {.mark = {.tag = 7, .row = false}})));
  is_refused(ask_batch(world, Batch().check("a", 0).put("a", "1")));
  is_refused(ask_scan(world, {.keys_only = true}));
  is_refused(ask_scan(world, {.count_only = true}));
  EXPECT_TRUE(ask_scan(world, {}).ok());
  EXPECT_EQ(world.node(0).executed, 0u);
  EXPECT_TRUE(put(world, "a", "1").ok()) << "what old nodes know is asked for";
  EXPECT_TRUE(ask_batch(world, Batch().put("a", "1")).ok());
  EXPECT_TRUE(get(world, "a").ok());
}

}  // namespace
}  // namespace skua::kv
