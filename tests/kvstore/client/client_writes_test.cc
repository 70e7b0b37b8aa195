// The operations that write, exactly once, and tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/client_core.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Submits by `submit(client, callback)`, and waits for the result.
template <typename Result = WriteResult, typename Submit>
Result ask(ClientWorld& world, Submit submit) {
  Got<Result> got;
  const absl::Status accepted = submit(*world.client, got.callback());
  EXPECT_TRUE(accepted.ok()) << accepted;
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.count, 1);
  return std::move(got.result);
}

WriteResult put(ClientWorld& world, std::string_view key, std::string_view value, WriteOptions options = {}) {
  return ask(world,
             [&](ClientCore& client, auto done) { return client.put("t", key, value, options, std::move(done)); });
}
WriteResult add(ClientWorld& world, std::string_view key, int64_t delta, WriteOptions options = {}) {
  return ask(world,
             [&](ClientCore& client, auto done) { return client.add("t", key, delta, options, std::move(done)); });
}
WriteResult append(ClientWorld& world, std::string_view key, std::string_view bytes) {
  return ask(world, [&](ClientCore& client, auto done) { return client.append("t", key, bytes, {}, std::move(done)); });
}
WriteResult expire(ClientWorld& world, std::string_view key, std::chrono::nanoseconds ttl) {
  return ask(world, [&](ClientCore& client, auto done) { return client.expire("t", key, ttl, {}, std::move(done)); });
}
BatchResult batch(ClientWorld& world, const Batch& batch, BatchOptions options = {}) {
  return ask<BatchResult>(
      world, [&](ClientCore& client, auto done) { return client.batch("t", batch, options, std::move(done)); });
}
GetResult get(ClientWorld& world, std::string_view key, ReadOptions options = {}) {
  return ask<GetResult>(world,
                        [&](ClientCore& client, auto done) { return client.get("t", key, options, std::move(done)); });
}

/// A node, its shards, and a client.
struct OneNode : ClientWorld {
  explicit OneNode(uint32_t shards = 1, ClientOptions options = {}) : ClientWorld(1, std::move(options)) {
    publish(shards);
    start_client();
  }
  /// Executes the next `count` writes and loses their answers; the node must be restarted for the client to notice.
  void lose_answers(int count) {
    left = count;
    node(0).before_answer = [this](rpc::IncomingCall& call) {
      if (left == 0) return false;
      --left;
      lost.push_back(std::move(call));
      return true;
    };
  }
  void restart() {
    lost.clear();
    restart_node(0);
    publish_owners(std::vector<uint32_t>(node(0).placement.shard_count, 0), 1);
  }

  int left = 0;
  std::vector<rpc::IncomingCall> lost;
};

// --- Operations

TEST(Add, CountsAndTellsTheSum) {
  OneNode world;
  EXPECT_EQ(add(world, "n", 5).value, 5);
  const WriteResult sum = add(world, "n", -7);
  ASSERT_TRUE(sum.ok()) << sum.status;
  EXPECT_EQ(sum.value, -2);
  EXPECT_EQ(get(world, "n").value.bytes(), "-2");
  ASSERT_TRUE(put(world, "text", "x").ok());
  const WriteResult no_number = add(world, "text", 1);
  EXPECT_EQ(no_number.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(no_number.status.ToString(), AllOf(HasSubstr("ADD t/\"text\""), HasSubstr("NOT_A_NUMBER")));
  EXPECT_FALSE(no_number.may_have_been_applied);
  EXPECT_EQ(no_number.detail, nullptr);
  ASSERT_TRUE(add(world, "n", INT64_MIN + 2).ok());
  EXPECT_EQ(add(world, "n", -1).status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(add(world, "n", 1, {.if_absent = true}).status.code(), absl::StatusCode::kAlreadyExists);
}

TEST(Append, AppendsToAValueOrToNone) {
  OneNode world;
  ASSERT_TRUE(append(world, "k", "one").ok());
  ASSERT_TRUE(append(world, "k", " two").ok());
  EXPECT_EQ(get(world, "k").value.bytes(), "one two");
}

TEST(Expire, SetsAndClearsWhatGetTells) {
  OneNode world;
  ASSERT_TRUE(put(world, "k", "v", {.ttl = std::chrono::seconds(3)}).ok());
  EXPECT_EQ(get(world, "k", {.with_ttl = true}).ttl, milliseconds(3000));
  EXPECT_EQ(get(world, "k").ttl, std::nullopt) << "not asked for";
  ASSERT_TRUE(expire(world, "k", std::chrono::microseconds(1500)).ok());
  EXPECT_EQ(get(world, "k", {.with_ttl = true}).ttl, milliseconds(2)) << "rounded up";
  ASSERT_TRUE(expire(world, "k", milliseconds(0)).ok());
  EXPECT_EQ(get(world, "k", {.with_ttl = true}).ttl, std::nullopt);
  EXPECT_EQ(expire(world, "none", milliseconds(5)).status.code(), absl::StatusCode::kNotFound);
}

TEST(Remove, OfAnAbsentKeyIsNotFound) {
  OneNode world;
  const auto remove = [&](std::string_view key) {
    return ask(world, [&](ClientCore& client, auto done) { return client.remove("t", key, {}, std::move(done)); });
  };
  EXPECT_EQ(remove("none").status.code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(put(world, "k", "v").ok());
  EXPECT_TRUE(remove("k").ok());
  EXPECT_EQ(remove("k").status.code(), absl::StatusCode::kNotFound);
}

TEST(Refusals, TellTheVersionThatTheKeyHas) {
  OneNode world;
  const WriteResult written = put(world, "k", "v");
  ASSERT_TRUE(written.ok());
  const std::string has = absl::StrCat("the key has version ", written.version);
  EXPECT_EQ(put(world, "k", "w", {.if_absent = true}).status.message(), "PUT t/\"k\" (shard 0): " + has);
  EXPECT_EQ(put(world, "k", "w", {.if_version = 99}).status.message(),
            "PUT t/\"k\" (shard 0): VERSION_MISMATCH: " + has + "; version 99 was asked for");
  EXPECT_EQ(put(world, "none", "w", {.if_version = 99}).status.message(),
            "PUT t/\"none\" (shard 0): VERSION_MISMATCH: the key does not exist; version 99 was asked for");
  EXPECT_EQ(put(world, "k", "w", {.if_version = 0}).status.message(),
            "PUT t/\"k\" (shard 0): VERSION_MISMATCH: " + has);
  EXPECT_THAT(std::string(batch(world, Batch().put("k", "w", {.if_version = 99})).status.message()),
              HasSubstr("VERSION_MISMATCH: " + has + "; version 99 was asked for"));
}

TEST(Durability, IsAskedForAndToldInTheResult) {
  OneNode world;
  EXPECT_EQ(put(world, "k", "v").durability, Durability::kSync);
  EXPECT_EQ(put(world, "k", "v", {.durability = Durability::kMemory}).durability, Durability::kMemory);
  EXPECT_EQ(batch(world, Batch().add("n", 1), {.durability = Durability::kFlush}).durability, Durability::kFlush);
}

TEST(Submit, RefusesWhatAWriteCannotHave) {
  OneNode world;
  ClientCore& client = *world.client;
  Got<WriteResult> got;
  const WriteOptions ttl{.ttl = milliseconds(1)};
  EXPECT_EQ(client.add("t", "k", 1, ttl, got.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.append("t", "k", "v", ttl, got.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.remove("t", "k", ttl, got.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.put("t", "k", "v", {.ttl = milliseconds(-1)}, got.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.expire("t", "k", milliseconds(1), {.if_absent = true}, got.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  const std::string_view keys[] = {"a"};
  EXPECT_EQ(client.multi_get("t", keys, {.with_ttl = true}, [](MultiGetResult&&) {}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.batch("t", Batch(), {}, [](BatchResult&&) {}).code(), absl::StatusCode::kInvalidArgument);
  Batch wrong;
  wrong.put("a", "1").put("", "2").put("b", "3");
  EXPECT_THAT(client.batch("t", wrong, {}, [](BatchResult&&) {}).ToString(),
              AllOf(HasSubstr("operation 2"), HasSubstr("key is empty")));
  EXPECT_EQ(client.in_flight(), 0u);
}

// --- Batches

TEST(Batch, DoesAllInOrder) {
  OneNode world;
  ASSERT_TRUE(put(world, "old", "x").ok());
  const FieldUpdate fields[] = {{"f", "v"}};
  Batch ops;
  ops.put("a", "1", {.if_absent = true}).append("a", "2").add("n", 3).add("n", 4).remove("old");
  ops.patch("row", fields, {.create_if_missing = true}).expire("a", milliseconds(10));
  const BatchResult done = batch(world, ops);
  ASSERT_TRUE(done.ok()) << done.status;
  ASSERT_EQ(done.ops.size(), 7u);
  EXPECT_EQ(done.ops[3].value, 7);
  EXPECT_GT(done.ops[3].version, done.ops[2].version);
  EXPECT_EQ(done.token.index, done.version);
  EXPECT_EQ(get(world, "a").value.bytes(), "12");
  EXPECT_EQ(get(world, "old").status.code(), absl::StatusCode::kNotFound);
}

TEST(Batch, DoesNothingIfOneCannotBeDoneAndSaysWhich) {
  OneNode world;
  ASSERT_TRUE(put(world, "text", "x").ok());
  const BatchResult refused = batch(world, Batch().put("a", "1").add("text", 1).put("b", "2"));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status.ToString(),
              AllOf(HasSubstr("operation 2"), HasSubstr("add \"text\""), HasSubstr("NOT_A_NUMBER")));
  EXPECT_FALSE(refused.may_have_been_applied);
  ASSERT_EQ(refused.ops.size(), 3u);
  EXPECT_TRUE(refused.ops[0].status.ok());
  EXPECT_EQ(refused.ops[1].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(get(world, "a").status.code(), absl::StatusCode::kNotFound);
}

TEST(Batch, OfSeveralShardsIsRefusedNamingTheKeys) {
  OneNode world(64);
  std::string other;
  for (int i = 0; other.empty(); ++i) {
    const std::string key = absl::StrCat("k", i);
    if (KeyPlacement{64}.shard_of(key) != KeyPlacement{64}.shard_of("a")) other = key;
  }
  const BatchResult refused = batch(world, Batch().put("a", "1").put("a", "2").put(other, "3"));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status.ToString(), AllOf(HasSubstr("\"a\""), HasSubstr(absl::StrCat("\"", other, "\""))));
  EXPECT_EQ(world.node(0).ids.size(), 0u);
  EXPECT_TRUE(batch(world, Batch().put("a", "1").put("a", "2")).ok());
}

TEST(Batch, OfOneHashTagIsInOneShard) {
  OneNode world(64);
  world.node(0).placement.hash_tags = true;
  world.control.publish({&world.node(0)}, std::vector<uint32_t>(64, 0), 1);
  const BatchResult done = batch(world, Batch().put("cart:{ada}", "1").put("{ada}.total", "2").put("ada", "3"));
  EXPECT_TRUE(done.ok()) << done.status;
  EXPECT_TRUE(get(world, "{ada}.total").ok());
  const BatchResult refused = batch(world, Batch().put("cart:{ada}", "1").put("cart:{bob}", "2"));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status.ToString(), HasSubstr("give them one tag in braces"));
}

// --- Exactly once

TEST(ExactlyOnce, ALostAnswerIsAskedForAgainWithTheSameSeq) {
  OneNode world;
  ASSERT_TRUE(add(world, "n", 1).ok());
  world.lose_answers(1);
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->add("t", "n", 10, {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return world.lost.size() == 1; }));
  const RequestId first = world.node(0).ids.back();
  EXPECT_NE(first.client_id, 0u);
  EXPECT_EQ(first.seq, 2u);
  world.restart();
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  ASSERT_TRUE(got.result.ok()) << got.result.status;
  EXPECT_EQ(got.result.value, 11);
  EXPECT_TRUE(got.result.repeated);
  EXPECT_EQ(world.node(0).ids, std::vector<RequestId>{first});
  EXPECT_EQ(world.node(0).executed, 0u) << "by the new process";
  EXPECT_EQ(get(world, "n").value.bytes(), "11");
  EXPECT_EQ(world.client->counters().repeated_writes, 1u);
}

TEST(ExactlyOnce, UnavailableAfterExecutionIsRepeatedOnTheSameSession) {
  OneNode world;
  int failures = 3;
  world.node(0).before_answer = [&](rpc::IncomingCall& call) {
    if (failures-- <= 0) return false;
    FakeNode::reply_error(call, KvStatus::kUnavailable, "the reply is not to be had");
    return true;
  };
  const BatchResult done = batch(world, Batch().add("n", 1).append("log", "x"));
  ASSERT_TRUE(done.ok()) << done.status;
  EXPECT_TRUE(done.repeated);
  EXPECT_EQ(world.node(0).executed, 1u);
  EXPECT_EQ(world.node(0).ids.size(), 4u);
  EXPECT_EQ(get(world, "log").value.bytes(), "x");
}

TEST(ExactlyOnce, EveryMutationCarriesANumberOfItsOwn) {
  OneNode world;
  const FieldUpdate fields[] = {{"f", "v"}};
  ASSERT_TRUE(put(world, "k", "").ok());
  ASSERT_TRUE(ask(world, [&](ClientCore& client, auto done) {
                return client.patch("t", "k", fields, {}, std::move(done));
              }).ok());
  ASSERT_TRUE(add(world, "n", 1).ok());
  ASSERT_TRUE(append(world, "k2", "x").ok());
  ASSERT_TRUE(expire(world, "k", milliseconds(1)).ok());
  ASSERT_TRUE(batch(world, Batch().put("a", "b")).ok());
  ASSERT_TRUE(
      ask(world, [&](ClientCore& client, auto done) { return client.remove("t", "k", {}, std::move(done)); }).ok());
  ASSERT_EQ(world.node(0).ids.size(), 7u);
  for (uint64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(world.node(0).ids[i], (RequestId{world.node(0).ids[0].client_id, i + 1, i + 1}));
  }
}

TEST(ExactlyOnce, ANewClientIsAnotherOne) {
  OneNode world;
  ASSERT_TRUE(put(world, "k", "v").ok());
  const uint64_t first = world.node(0).ids.back().client_id;
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  EXPECT_NE(world.node(0).ids.back().client_id, first);
  EXPECT_EQ(world.node(0).ids.back().seq, 1u);
}

TEST(ExactlyOnce, CanBeTurnedOff) {
  OneNode world(1, {.exactly_once = false});
  ASSERT_TRUE(put(world, "k", "v").ok());
  EXPECT_EQ(world.node(0).ids.back(), RequestId{});
  world.node(0).before_answer = [&](rpc::IncomingCall& call) {
    FakeNode::reply_error(call, KvStatus::kUnavailable, "gone");
    return true;
  };
  const WriteResult unknown = put(world, "k", "w");
  EXPECT_EQ(unknown.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(unknown.may_have_been_applied);
  EXPECT_EQ(world.node(0).executed, 2u);
}

TEST(ExactlyOnce, AnUnknownFateIsRememberedUntilTheDeadline) {
  OneNode world;
  world.lose_answers(1);
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->put("t", "k", "v", {.timeout = milliseconds(500)}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return world.lost.size() == 1; }));
  world.restart();
  // The second process never gets so far: no attempt after the first was executed, and still the first may have been.
  world.node(0).script = [](rpc::IncomingCall& call) {
    FakeNode::reply_error(call, KvStatus::kResourceExhausted, "busy");
    return true;
  };
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(got.result.may_have_been_applied);
  EXPECT_THAT(got.result.status.ToString(), HasSubstr("may have been applied"));
}

/// A node that forgot clients whose writes had numbers below `first_taken`.
FakeNode::Script takes_from(uint64_t first_taken) {
  return [first_taken](rpc::IncomingCall& call) {
    const auto seq = load_le<uint64_t>(call.request.bytes().data() + kRequestHeaderBytes + sizeof(uint64_t));
    if (seq >= first_taken) return false;
    FakeNode::reply_error(call, KvStatus::kStaleRetry, "forgotten", first_taken);
    return true;
  };
}

TEST(ExactlyOnce, AFirstAttemptThatIsStaleIsNumberedAnew) {
  OneNode world;
  world.node(0).script = takes_from(1000);
  const WriteResult first = add(world, "n", 1);
  ASSERT_TRUE(first.ok()) << first.status;
  EXPECT_EQ(first.value, 1);
  EXPECT_FALSE(first.may_have_been_applied);
  EXPECT_EQ(world.node(0).ids.back().seq, 1000u);
  ASSERT_TRUE(batch(world, Batch().add("n", 1)).ok());
  EXPECT_EQ(world.node(0).ids.back().seq, 1001u) << "all later ones are above it, too";
  EXPECT_EQ(world.node(0).ids.back().first_incomplete, 1001u);
  EXPECT_EQ(world.node(0).executed, 2u);
  EXPECT_EQ(world.client->counters().repeated_writes, 0u);
}

TEST(ExactlyOnce, AStaleRepetitionIsUnknownAndNotSentAgain) {
  OneNode world;
  world.node(0).before_answer = [&](rpc::IncomingCall& call) {
    world.node(0).script = takes_from(1000);
    FakeNode::reply_error(call, KvStatus::kUnavailable, "the reply is not to be had");
    return true;
  };
  const WriteResult unknown = add(world, "n", 1);
  EXPECT_EQ(unknown.status.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(unknown.may_have_been_applied);
  EXPECT_EQ(world.node(0).executed, 1u);
}

TEST(ExactlyOnce, AShardThatTakesNoNumberIsNotAskedForEver) {
  OneNode world;
  world.node(0).script = takes_from(UINT64_MAX);
  EXPECT_EQ(add(world, "n", 1).status.code(), absl::StatusCode::kAborted);
}

TEST(ExactlyOnce, AShardOutOfReachDoesNotHoldBackTheOthers) {
  ClientWorld world(2);
  world.publish(2);
  world.start_client();
  std::string on0;
  std::string on1;
  for (int i = 0; on0.empty() || on1.empty(); ++i) {
    const std::string key = absl::StrCat("k", i);
    (KeyPlacement{2}.shard_of(key) == 0 ? on0 : on1) = key;
  }
  ASSERT_TRUE(put(world, on0, "v").ok());
  ASSERT_TRUE(put(world, on1, "v").ok());
  std::vector<rpc::IncomingCall> kept;
  world.node(1).script = [&](rpc::IncomingCall& call) {
    kept.push_back(std::move(call));
    return true;
  };
  Got<WriteResult> stuck;
  ASSERT_TRUE(world.client->put("t", on1, "w", {.timeout = std::chrono::seconds(2)}, stuck.callback()).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(world, on0, "w").ok());
  const RequestId last = world.node(0).ids.back();
  EXPECT_EQ(last.first_incomplete, last.seq);
  ASSERT_TRUE(world.run_until([&] { return stuck.here(); }));
  kept.clear();
}

/// Counters under loss, restarts and answers that are executed and lost: each ends at the sum of what was told, give or
/// take what ended without a known fate.
TEST(ExactlyOnce, CountersAreExactUnderFaults) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed);
    ClientWorld world(3, {}, seed);
    const std::vector<uint32_t> owners = {0, 1, 2, 0, 1};
    world.publish_owners(owners, 1);
    ClientCore& client = world.start_client();
    world.network.set_faults({.loss = 0.05, .duplicate = 0.05, .corrupt = 0.01, .reorder = 0.1});
    std::vector<rpc::IncomingCall> lost;
    const auto lose_some = [&](uint32_t index) {
      world.node(index).before_answer = [&](rpc::IncomingCall& call) {
        if (rng.chance(0.1)) {
          FakeNode::reply_error(call, KvStatus::kUnavailable, "lost");
          return true;
        }
        return false;
      };
    };
    for (uint32_t i = 0; i < 3; ++i) lose_some(i);
    constexpr size_t kKeys = 6;
    std::vector<int64_t> sure(kKeys);
    std::vector<int64_t> unsure(kKeys);
    int started = 0;
    int ended = 0;
    for (int round = 0; round < 300; ++round) {
      const size_t k = rng.below(kKeys);
      ++started;
      ASSERT_TRUE(client
                      .add("t", absl::StrCat("n", k), 1, {.timeout = milliseconds(20 + rng.below(3000))},
                           [&, k](WriteResult&& result) {
                             ++ended;
                             if (result.ok()) ++sure[k];
                             if (result.may_have_been_applied) ++unsure[k];
                           })
                      .ok());
      if (rng.chance(0.02)) {
        const auto index = static_cast<uint32_t>(rng.below(3));
        world.restart_node(index);
        lose_some(index);
        world.publish_owners(owners, 1);
      }
      world.run_until([] { return false; }, static_cast<DurationNs>(rng.below(5 * kMillisecond)));
    }
    ASSERT_TRUE(world.run_until([&] { return ended == started; }, 30 * kSecond));
    world.network.set_faults({});
    for (uint32_t i = 0; i < 3; ++i) world.node(i).before_answer = nullptr;
    int64_t all_unsure = 0;
    for (size_t k = 0; k < kKeys; ++k) {
      const int64_t counted = add(world, absl::StrCat("n", k), 0).value;
      EXPECT_GE(counted, sure[k]);
      EXPECT_LE(counted, sure[k] + unsure[k]);
      all_unsure += unsure[k];
    }
    EXPECT_LT(all_unsure, started / 4) << "most are repeated until they are answered";
    EXPECT_GT(client.counters().repeated_writes, 0u);
  }
}

// --- Tokens

TEST(Tokens, OfAWriteServeAReadOfItsShard) {
  OneNode world(4);
  const WriteResult written = put(world, "k", "v");
  EXPECT_EQ(written.token.table_id, 7u);
  EXPECT_EQ(written.token.shard, KeyPlacement{4}.shard_of("k"));
  EXPECT_EQ(written.token.index, written.version);
  const GetResult read = get(world, "k", {.at_least = written.token});
  ASSERT_TRUE(read.ok()) << read.status;
  EXPECT_GE(read.token.index, written.token.index);

  Token ahead = written.token;
  ahead.index += 100;
  const GetResult lost = get(world, "k", {.at_least = ahead});
  EXPECT_EQ(lost.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(lost.status.ToString(), HasSubstr("BEHIND_TOKEN"));
  Token elsewhere = written.token;
  elsewhere.shard = (elsewhere.shard + 1) % 4;
  EXPECT_EQ(get(world, "k", {.at_least = elsewhere}).status.code(), absl::StatusCode::kInvalidArgument);
  Token dropped = written.token;
  dropped.table_id = 6;
  EXPECT_EQ(get(world, "k", {.at_least = dropped}).status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Tokens, OfALaterEpochWaitForTheMap) {
  ClientWorld world(1);
  world.publish_owners({0}, 1);
  world.start_client();
  Token token = put(world, "k", "v").token;
  token.epoch = 2;
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {.at_least = token}, got.callback()).ok());
  world.run_until([] { return false; }, 100 * kMillisecond);
  EXPECT_FALSE(got.here());
  world.publish_owners({0}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_TRUE(got.result.ok()) << got.result.status;
}

}  // namespace
}  // namespace skua::kv
