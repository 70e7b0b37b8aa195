// Calls to a node that hangs, and whose shards others lead meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/codec/key_hash.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// No time-out of the session is so short.
constexpr DurationNs kSoon = 50 * kMillisecond;

/// Two nodes that replicate without lag, and a client that has a session with the first.
struct TwoNodes : ClientWorld {
  explicit TwoNodes(const std::vector<uint32_t>& owners = {0}, ClientOptions options = {})
      : ClientWorld(2, std::move(options), 1, true) {
    publish_owners(owners, 1);
    start_client();
    Got<WriteResult> got;
    EXPECT_TRUE(client->put("t", "warm", "up", {}, got.callback()).ok());
    EXPECT_TRUE(run_until([&] { return got.here(); }));
  }
  /// Lets the client's packets arrive.
  void pass(DurationNs time) {
    run_until([] { return false; }, time);
  }
  [[nodiscard]] uint64_t dropped_answers() {
    return client->endpoint().counters().drops[static_cast<size_t>(rpc::DropReason::kUnexpectedResponse)];
  }
};

TEST(Moves, AReadOfAHungPrimaryIsAnsweredByTheNewOne) {
  TwoNodes world;
  world.store(0).entries["k"] = {"old", 5};
  world.pause_node(0);
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  world.pass(kSoon);
  world.publish_owners({1}, 2);
  world.store(1).entries["k"] = {"new", 6};
  ASSERT_TRUE(world.run_until([&] { return got.here(); }, kSoon));
  EXPECT_EQ(got.result.value.bytes(), "new");
  EXPECT_EQ(world.client->counters().calls_moved, 1U);
  EXPECT_EQ(world.client->counters().sessions_lost, 0U);
}

TEST(Moves, ALateAnswerOfTheOldPrimaryIsDropped) {
  TwoNodes world;
  std::vector<rpc::IncomingCall> kept;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    kept.push_back(std::move(call));
    return true;
  };
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return kept.size() == 1; }));
  world.pause_node(0);
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }, kSoon));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kNotFound);
  // It goes on in the middle of its handler, and answers with what it had read.
  HeadBuffer buffer;
  const std::string stale = "stale";
  rpc::MessagePtr message = rpc::MessagePtr::make();
  message->append_copy(encode_get_reply_head({.version = 3, .epoch = 1, .index = 3}, stale.size(), buffer));
  message->append_copy(as_byte_span(stale));
  kept[0].reply.reply(std::move(message));
  world.continue_node(0);
  const uint64_t dropped = world.dropped_answers();
  world.pass(kSoon);
  EXPECT_EQ(world.dropped_answers(), dropped + 1);
  EXPECT_EQ(got.count, 1);
  kept.clear();
}

TEST(Moves, AWriteThatWasCommittedTakesEffectOnce) {
  TwoNodes world;
  std::vector<rpc::IncomingCall> unanswered;
  world.node(0).before_answer = [&](rpc::IncomingCall& call) {
    unanswered.push_back(std::move(call));
    return true;
  };
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->add("t", "n", 1, {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return unanswered.size() == 1; }));
  world.pause_node(0);
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }, kSoon));
  ASSERT_TRUE(got.result.ok()) << got.result.status;
  EXPECT_EQ(got.result.value, 1);
  EXPECT_TRUE(got.result.repeated);
  EXPECT_EQ(world.node(0).executed, 2U);
  EXPECT_EQ(world.node(1).executed, 0U);
  EXPECT_EQ(world.store(1).entries["n"].value, "1");
  EXPECT_EQ(world.client->counters().repeated_writes, 1U);
  unanswered.clear();
}

TEST(Moves, AWriteThatDidNotArriveTakesEffectOnce) {
  TwoNodes world;
  world.pause_node(0);
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->add("t", "n", 1, {}, got.callback()).ok());
  world.pass(kSoon);
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }, kSoon));
  EXPECT_EQ(got.result.value, 1);
  EXPECT_FALSE(got.result.repeated);
  world.continue_node(0);
  world.pass(kSoon);
  EXPECT_EQ(world.store(1).entries["n"].value, "1");
  EXPECT_EQ(world.node(0).executed, 1U);  // what warmed it up
  EXPECT_EQ(world.node(1).executed, 1U);
}

TEST(Moves, AWriteWithoutIdentityWaitsForItsNode) {
  TwoNodes world({0}, {.timeout = seconds(30), .exactly_once = false});
  world.pause_node(0);
  Got<WriteResult> got;
  Got<GetResult> read;
  ASSERT_TRUE(world.client->add("t", "n", 1, {}, got.callback()).ok());
  ASSERT_TRUE(world.client->get("t", "n", {}, read.callback()).ok());
  world.pass(kSoon);
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return read.here(); }, kSoon));
  EXPECT_FALSE(got.here());
  world.continue_node(0);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }, kSoon));
  EXPECT_TRUE(got.result.ok()) << got.result.status;  // refused there, since it is not of its epoch, and sent on
  EXPECT_EQ(world.store(1).entries["n"].value, "1");
}

TEST(Moves, CallsToShardsThatStayAreLeftAlone) {
  TwoNodes world({0, 0});
  std::string keys[2];
  for (int i = 0; keys[0].empty() || keys[1].empty(); ++i) {
    keys[KeyPlacement{2}.shard_of(absl::StrCat("k", i))] = absl::StrCat("k", i);
  }
  world.pause_node(0);
  Got<WriteResult> got[2];
  for (int shard : {0, 1}) {
    ASSERT_TRUE(world.client->add("t", keys[shard], 1, {}, got[shard].callback()).ok());
  }
  world.pass(kSoon);
  world.publish_owners({1, 0}, 1);
  ASSERT_TRUE(world.run_until([&] { return got[0].here(); }, kSoon));
  EXPECT_FALSE(got[1].here());
  world.continue_node(0);
  ASSERT_TRUE(world.run_until([&] { return got[1].here(); }, kSoon));
  EXPECT_TRUE(got[0].result.ok() && got[1].result.ok());
  EXPECT_EQ(world.client->counters().calls_moved, 1U);
  EXPECT_EQ(world.client->counters().sessions_lost, 0U);
}

TEST(Moves, APrimaryThatStaysInALaterEpochKeepsItsCalls) {
  TwoNodes world;
  world.pause_node(0);
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  world.pass(kSoon);
  world.publish_owners({0}, 2);
  world.pass(kSoon);
  EXPECT_EQ(world.client->counters().calls_moved, 0U);
  world.publish_owners({99}, 3);  // nobody leads it
  world.pass(kSoon);
  EXPECT_EQ(world.client->counters().calls_moved, 0U);
  world.publish_owners({1}, 4);
  EXPECT_TRUE(world.run_until([&] { return got.here(); }, kSoon));
}

TEST(Moves, LentMemoryIsReleasedOnceAndNotWhileItMayBeRead) {
  TwoNodes world;
  const std::string big(3 << 20, 'b');
  int released = 0;
  Got<WriteResult> got;
  world.pause_node(0);
  ASSERT_TRUE(world.client
                  ->put("t", "k",
                        PutValue::lend(
                            big, [](void* count) { ++*static_cast<int*>(count); }, &released),
                        {}, got.callback())
                  .ok());
  world.pass(kSoon);
  EXPECT_EQ(released, 0);
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }, kSecond));
  EXPECT_TRUE(got.result.ok()) << got.result.status;
  EXPECT_TRUE(world.run_until([&] { return released > 0; }, kSecond));
  world.continue_node(0);
  world.pass(kSecond);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(world.store(1).entries["k"].value, big);
  EXPECT_EQ(world.network.violations().tx_changed, 0U);
  EXPECT_EQ(world.client->endpoint().balance().calls, 0U);
  EXPECT_EQ(world.client->endpoint().balance().messages, 0U);
}

TEST(Moves, PartsOfMultiGetAndScanGoToTheNewPrimary) {
  TwoNodes world({0, 1, 0});
  std::vector<std::string> keys;
  for (int i = 0; i < 30; ++i) keys.push_back(absl::StrCat("key", i));
  for (const std::string& key : keys) world.store(0).entries[key] = {"v", 1};
  world.store(0).entries.erase("warm");
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  world.pause_node(0);
  Got<MultiGetResult> many;
  Got<ScanResult> rows;
  ASSERT_TRUE(world.client->multi_get("t", views, {}, many.callback()).ok());
  ASSERT_TRUE(world.client->scan("t", {}, {}, rows.callback()).ok());
  world.pass(kSoon);
  EXPECT_FALSE(many.here() || rows.here());
  world.publish_owners({1, 1, 1}, 2);
  ASSERT_TRUE(world.run_until([&] { return many.here() && rows.here(); }, kSoon));
  ASSERT_TRUE(many.result.ok()) << many.result.status;
  for (const KeyResult& entry : many.result.entries) EXPECT_EQ(entry.value, "v");
  EXPECT_EQ(rows.result.rows.size(), keys.size());
}

TEST(Moves, AnOperationThatWaitsForASessionWithAHungNodeGoesToTheNewOne) {
  ClientWorld world(2, {}, 1, true);
  world.publish_owners({0}, 1);
  world.control.set_silent(world.node(0).grpc_address());
  world.start_client();
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  world.run_until([] { return false; }, kSoon);
  world.publish_owners({1}, 2);
  EXPECT_TRUE(world.run_until([&] { return got.here(); }, kSoon));
}

TEST(Moves, ASlowCallLooksForANewerMapNowAndThen) {
  TwoNodes world;
  const uint64_t before = world.control.hurries;
  Got<GetResult> got;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.count == 100; }));
  EXPECT_EQ(world.control.hurries, before);
  world.pause_node(0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  world.pass(kSlowCallNs - kMillisecond);
  EXPECT_EQ(world.control.hurries, before);
  world.pass(4 * kSlowCallNs);
  EXPECT_EQ(world.control.hurries, before + 4);
}

TEST(Moves, ACallbackMayAskAgain) {
  TwoNodes world({0}, {.timeout = milliseconds(400)});
  world.pause_node(0);
  int ended = 0;
  std::function<void(GetResult &&)> again = [&](GetResult&&) {
    if (++ended < 50) {
      ASSERT_TRUE(world.client->get("t", "k", {}, [&](GetResult&& result) { again(std::move(result)); }).ok());
    }
  };
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(world.client->get("t", "k", {}, [&](GetResult&& result) { again(std::move(result)); }).ok());
  }
  world.pass(kSoon);
  world.publish_owners({1}, 2);
  EXPECT_TRUE(world.run_until([&] { return world.client->in_flight() == 0; }));
  EXPECT_EQ(ended, 59);
}

TEST(Moves, TheTrailTellsOfTheCallThatWasGivenUp) {
  TwoNodes world;
  world.pause_node(0);
  world.pause_node(1);
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->add("t", "n", 1, {.timeout = milliseconds(500)}, got.callback()).ok());
  world.pass(kSoon);
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(got.result.may_have_been_applied);
  ASSERT_GE(got.result.detail->attempts.size(), 1U);
  EXPECT_THAT(got.result.detail->attempts[0].whom, HasSubstr("node0"));
  EXPECT_THAT(got.result.detail->attempts[0].outcome, HasSubstr("another node leads"));
}

/// Nodes that hang and go on while shards move, with loss: every ADD that is acknowledged counts once, all are in the
/// end, and no read is older than an answer before it.
TEST(Moves, CountersAreExactUnderPausesAndMoves) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed);
    constexpr uint32_t kNodes = 3;
    ClientWorld world(kNodes, {.timeout = seconds(60)}, seed, true);
    std::vector<uint32_t> owners = {0, 1, 2, 0};
    uint64_t epoch = 1;
    world.publish_owners(owners, epoch);
    ClientCore& client = world.start_client();
    world.network.set_faults({.loss = 0.03, .duplicate = 0.02, .reorder = 0.1});
    constexpr int kKeys = 6;
    int64_t asked[kKeys] = {};
    int64_t answered[kKeys] = {};
    int64_t seen[kKeys] = {};
    int under_way = 0;
    for (int round = 0; round < 300; ++round) {
      const auto k = static_cast<size_t>(rng.below(kKeys));
      const std::string key = absl::StrCat("n", k);
      if (rng.chance(0.6)) {
        ++under_way;
        ++asked[k];
        ASSERT_TRUE(client
                        .add("t", key, 1, {},
                             [&, k](WriteResult&& result) {
                               --under_way;
                               ASSERT_TRUE(result.ok()) << result.status;
                               ++answered[k];
                               seen[k] = std::max(seen[k], result.value);
                             })
                        .ok());
      } else {
        ++under_way;
        ASSERT_TRUE(client
                        .get("t", key, {},
                             [&, k, least = seen[k]](GetResult&& result) {
                               --under_way;
                               const int64_t is = result.ok() ? std::stoll(result.value.str()) : 0;
                               EXPECT_GE(is, least);
                               EXPECT_LE(is, asked[k]);
                               seen[k] = std::max(seen[k], is);
                             })
                        .ok());
      }
      if (rng.chance(0.05)) {
        // One hangs, and what it led is somebody else's a little later.
        const auto victim = static_cast<uint32_t>(rng.below(kNodes));
        world.pause_node(victim);
        world.run_until([] { return false; }, static_cast<DurationNs>(rng.below(20 * kMillisecond)));
        for (uint32_t& owner : owners) {
          if (owner == victim) owner = (victim + 1 + static_cast<uint32_t>(rng.below(kNodes - 1))) % kNodes;
        }
        world.publish_owners(owners, ++epoch);
      }
      if (rng.chance(0.05)) {
        for (uint32_t i = 0; i < kNodes; ++i) world.continue_node(i);
      }
      world.run_until([] { return false; }, static_cast<DurationNs>(rng.below(3 * kMillisecond)));
    }
    for (uint32_t i = 0; i < kNodes; ++i) world.continue_node(i);
    ASSERT_TRUE(world.run_until([&] { return under_way == 0; }));
    for (int k = 0; k < kKeys; ++k) {
      EXPECT_EQ(answered[k], asked[k]);
      const std::string& is = world.store(0).entries[absl::StrCat("n", k)].value;
      EXPECT_EQ(is.empty() ? "0" : is, absl::StrCat(asked[k]));
    }
    EXPECT_GT(client.counters().calls_moved, 0U);
    ASSERT_TRUE(world.run_until([&] { return client.endpoint().balance().calls == 0; }));
    EXPECT_EQ(world.network.violations().tx_changed, 0U);
  }
}

}  // namespace
}  // namespace skua::kv
