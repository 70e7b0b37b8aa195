// Single operations of the client, what it refuses, and all at once under faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/client/client_calls_testing.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::get;
using ::testing::HasSubstr;
using testing::put;
using testing::text;

TEST(Get, ReadsWhatPutWrote) {
  ClientWorld world(2);
  world.publish(8);
  world.start_client();
  for (int i = 0; i < 50; ++i) {
    const WriteResult written = put(world, absl::StrCat("key", i), absl::StrCat("value", i));
    ASSERT_TRUE(written.ok()) << written.status;
    const GetResult read = get(world, absl::StrCat("key", i));
    ASSERT_TRUE(read.ok()) << read.status;
    EXPECT_EQ(read.value.bytes(), absl::StrCat("value", i));
    EXPECT_EQ(read.version, written.version);
  }
  EXPECT_EQ(world.client->counters().sessions_opened, 2u);
  EXPECT_EQ(world.client->counters().retries, 0u);
}

TEST(Get, OfAMissingKeyIsNotFoundWithoutDetail) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  const GetResult read = get(world, "nobody");
  EXPECT_EQ(read.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(read.detail, nullptr);
}

TEST(Get, ValueMayBeKept) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "kept").ok());
  GetResult read = get(world, "k");
  const ValueView kept = std::move(read.value);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put(world, "k", "other").ok());
  EXPECT_EQ(kept.bytes(), "kept");
}

TEST(Put, HonoursConditions) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  const WriteResult first = put(world, "k", "1", {.if_absent = true});
  ASSERT_TRUE(first.ok());
  const WriteResult again = put(world, "k", "2", {.if_absent = true});
  EXPECT_EQ(again.status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(again.version, first.version);
  EXPECT_FALSE(again.may_have_been_applied);
  EXPECT_EQ(again.detail, nullptr);
  EXPECT_EQ(put(world, "none", "2", {.if_present = true}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(put(world, "k", "1", {.if_version = first.version, .ttl = milliseconds(50'000)}).ok());
  const WriteResult third = put(world, "k", "1", {.if_present = true, .keep_ttl = true});
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(world.store(0).entries.at("k").ttl_ms, 50'000u);
  const WriteResult second = put(world, "k", "2", {.if_version = third.version});
  ASSERT_TRUE(second.ok());
  const WriteResult stale = put(world, "k", "3", {.if_version = first.version});
  EXPECT_EQ(stale.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(text(stale.status), AllOf(HasSubstr("PUT t/\"k\""), HasSubstr("VERSION_MISMATCH")));
  EXPECT_EQ(stale.version, second.version);
}

TEST(Put, SendsBigAndOwnedAndLentValues) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  const std::string big(1 << 20, 'b');
  ASSERT_TRUE(put(world, "copied", big).ok());
  ASSERT_TRUE(put(world, "owned", std::string(big)).ok());
  int released = 0;
  ASSERT_TRUE(put(world, "lent",
                  PutValue::lend(
                      big, [](void* count) { ++*static_cast<int*>(count); }, &released))
                  .ok());
  world.turn();
  EXPECT_EQ(released, 1);
  for (const char* key : {"copied", "owned", "lent"}) EXPECT_EQ(get(world, key).value.bytes(), big);
}

TEST(Put, ReleasesLentMemoryOnceAlsoWhenRefused) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  int released = 0;
  Got<WriteResult> got;
  const auto release = [](void* count) { ++*static_cast<int*>(count); };
  EXPECT_FALSE(world.client->put("t", "", PutValue::lend("x", release, &released), {}, got.callback()).ok());
  EXPECT_EQ(released, 1);
  EXPECT_EQ(got.count, 0);
}

TEST(Remove, RemovesAKey) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->remove("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_TRUE(got.result.ok());
  EXPECT_EQ(get(world, "k").status.code(), absl::StatusCode::kNotFound);
}

TEST(Patch, ChangesFieldsOfARow) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  auto patch = [&](std::vector<FieldUpdate> fields, PatchOptions options) {
    Got<WriteResult> got;
    EXPECT_TRUE(world.client->patch("t", "row", fields, options, got.callback()).ok());
    EXPECT_TRUE(world.run_until([&] { return got.here(); }));
    return std::move(got.result);
  };
  EXPECT_EQ(patch({{"a", "1"}}, {}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(patch({{"a", "1"}, {"b", "2"}}, {.create_if_missing = true}).ok());
  EXPECT_TRUE(patch({{"b", "3"}}, {}).ok());
  const GetResult read = get(world, "row");
  EXPECT_EQ(as_string_view(*find_field(as_byte_span(read.value.bytes()), "b")), "3");
  ASSERT_TRUE(put(world, "row", "not a row at all").ok());
  const WriteResult refused = patch({{"b", "3"}}, {});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(refused.may_have_been_applied);
}

// --- Refusals

TEST(Submit, RefusesWhatBreaksALimitAndNamesIt) {
  ClientWorld world(1);
  world.publish(1);
  ClientCore& client = world.start_client();
  Got<GetResult> read;
  Got<WriteResult> written;
  EXPECT_EQ(client.get("t", "", {}, read.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.get("", "k", {}, read.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(text(client.get("t", std::string(1025, 'k'), {}, read.callback())),
              HasSubstr("the key has 1,025 bytes; at most 1,024 are allowed"));
  EXPECT_EQ(client.get("t", "k", {.timeout = milliseconds(-1)}, read.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  const std::string large(kValueBytesMax + 1, 'v');
  EXPECT_THAT(text(client.put("t", "k", large, {}, written.callback())), HasSubstr("at most 16,777,216 are allowed"));
  EXPECT_EQ(client.put("t", "k", "v", {.if_version = 1, .if_absent = true}, written.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.remove("t", "k", {.if_absent = true}, written.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.patch("t", "k", {}, {}, written.callback()).code(), absl::StatusCode::kInvalidArgument);
  const FieldUpdate nameless[] = {{"", "v"}};
  EXPECT_EQ(client.patch("t", "k", nameless, {}, written.callback()).code(), absl::StatusCode::kInvalidArgument);
  const FieldUpdate huge[] = {{"f", large}};
  EXPECT_EQ(client.patch("t", "k", huge, {}, written.callback()).code(), absl::StatusCode::kInvalidArgument);
  Got<MultiGetResult> many;
  EXPECT_EQ(client.multi_get("t", {}, {}, many.callback()).code(), absl::StatusCode::kInvalidArgument);
  Got<ScanResult> rows;
  EXPECT_EQ(client.scan("t", {.limit = 0}, {}, rows.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.in_flight(), 0u);
  world.turn();
  EXPECT_EQ(read.count + written.count + many.count + rows.count, 0);
}

TEST(Submit, RefusesBeyondOperationsMaxAndAcceptsAgain) {
  ClientWorld world(1, {.operations_max = 3});
  world.publish(1);
  ClientCore& client = world.start_client();
  Got<GetResult> got;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client.get("t", "k", {}, got.callback()).ok());
  const absl::Status refused = client.get("t", "k", {}, got.callback());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(text(refused), HasSubstr("operations_max (3)"));
  ASSERT_TRUE(world.run_until([&] { return got.count == 3; }));
  ASSERT_TRUE(client.get("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.count == 4; }));
  EXPECT_EQ(client.counters().operations_refused, 1u);
}

TEST(Submit, FromACallbackUsesTheFreedPlace) {
  ClientWorld world(1, {.operations_max = 1});
  world.publish(1);
  ClientCore& client = world.start_client();
  int left = 100;
  std::function<void(GetResult &&)> again = [&](GetResult&&) {
    if (--left > 0) {
      ASSERT_TRUE(client.get("t", "k", {}, [&](GetResult&& result) { again(std::move(result)); }).ok());
    }
  };
  ASSERT_TRUE(client.get("t", "k", {}, [&](GetResult&& result) { again(std::move(result)); }).ok());
  EXPECT_TRUE(world.run_until([&] { return left == 0; }));
}

// --- Everything at once

/// A client and three nodes under loss, restarts and moving shards. Every callback runs once, every answer is a value
/// that the key can have, and when the faults end everything works.
TEST(ClientCore, AnswersRightUnderFaults) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed);
    ClientWorld world(3, {}, seed);
    std::vector<uint32_t> owners = {0, 1, 2, 0, 1};
    uint64_t epoch = 1;
    world.publish_owners(owners, epoch);
    ClientCore& client = world.start_client();
    world.network.set_faults({.loss = 0.05, .duplicate = 0.02, .corrupt = 0.01, .reorder = 0.1});

    constexpr int kKeys = 12;
    struct KeyState {
      std::set<std::string> possible = {""};  // "" is absent
      std::set<std::string> late;             // writes of unknown fate: may still arrive
      bool busy = false;
    };
    std::vector<KeyState> keys(kKeys);
    int started = 0;
    int ended = 0;
    for (int round = 0; round < 400; ++round) {
      const auto k = static_cast<size_t>(rng.below(kKeys));
      KeyState& state = keys[k];
      if (!state.busy) {
        const std::string key = absl::StrCat("key", k);
        state.busy = true;
        ++started;
        if (rng.chance(0.5)) {
          const std::string value = absl::StrCat("v", round);
          ASSERT_TRUE(client
                          .put("t", key, value, {.timeout = milliseconds(1 + rng.below(400))},
                               [&, value](WriteResult&& result) {
                                 ++ended;
                                 state.busy = false;
                                 if (result.ok()) {
                                   state.possible = {value};
                                 } else if (result.may_have_been_applied) {
                                   state.late.insert(value);
                                 }
                               })
                          .ok());
        } else {
          ASSERT_TRUE(client
                          .get("t", key, {.timeout = milliseconds(1 + rng.below(400))},
                               [&](GetResult&& result) {
                                 ++ended;
                                 state.busy = false;
                                 const std::string found = result.ok() ? result.value.str() : "";
                                 const bool answered = result.detail == nullptr;
                                 if (answered && !state.late.contains(found)) {
                                   EXPECT_TRUE(state.possible.contains(found)) << found;
                                 }
                               })
                          .ok());
        }
      }
      if (rng.chance(0.02)) {
        world.restart_node(static_cast<uint32_t>(rng.below(3)));
        world.publish_owners(owners, epoch);
      }
      if (rng.chance(0.03)) world.publish_owners(owners, ++epoch);
      world.run_until([] { return false; }, static_cast<DurationNs>(rng.below(5 * kMillisecond)));
    }
    ASSERT_TRUE(world.run_until([&] { return ended == started; }, 30 * kSecond));
    world.network.set_faults({});
    for (int k = 0; k < kKeys; ++k) {
      EXPECT_TRUE(put(world, absl::StrCat("key", k), "end").ok());
    }
    EXPECT_EQ(client.in_flight(), 0u);
    ASSERT_TRUE(world.run_until([&] { return client.endpoint().balance().calls == 0; }));
    EXPECT_EQ(world.network.violations().tx_changed, 0u);
  }
}

}  // namespace
}  // namespace skua::kv
