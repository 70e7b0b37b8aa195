#include "kvstore/peers/peer_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "control/core/cluster_limits.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/peers/peer_limits.h"
#include "rpc/base/rng.h"
#include "rpc/base/tsc_clock.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "tests/kvstore/peers/peer_world.h"

namespace skua::kv {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeBootstrap;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kPeerCluster;
using testing::PeerNode;
using testing::PeerWorld;
using ::testing::SizeIs;

TEST(PeerLinksTest, NodeId_SortsAsTheText) {
  rpc::Uuid uuid;
  for (uint8_t i = 0; i < 16; ++i) uuid.bytes[i] = static_cast<uint8_t>(i + 1);
  EXPECT_EQ(node_id_of(uuid), 0x0102030405060708U);
}

TEST(PeerLinksTest, FirstSend_OpensTheLink) {
  PeerWorld world(2);
  EXPECT_FALSE(world.node(0).send(world.node(1), Release{1}));
  EXPECT_EQ(world.node(0).links().counters().dropped_down, 1U);
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).ready.empty(); }));
  EXPECT_EQ(world.node(0).ready[0], PeerNode::address(1));
  EXPECT_TRUE(world.node(0).failed.empty());
  ASSERT_TRUE(world.node(0).send(world.node(1), Release{2}));
  ASSERT_TRUE(world.run_until([&] { return !world.node(1).received.empty(); }));
  const PeerNode::Received& got = world.node(1).received[0];
  EXPECT_EQ(got.from, PeerNode::address(0));
  EXPECT_EQ(got.envelope, world.node(0).envelope());
  EXPECT_EQ(std::get<Release>(got.message).epoch, 2U);
  EXPECT_FALSE(got.is_reply);
  world.expect_balance();
}

TEST(PeerLinksTest, Messages_OfThreeNodesBothWays) {
  PeerWorld world(3);
  for (uint32_t from = 0; from < 3; ++from) {
    for (uint32_t to = 0; to < 3; ++to) {
      if (from == to) continue;
      ASSERT_TRUE(world.connect(from, to));
    }
  }
  for (uint64_t round = 1; round <= 100; ++round) {
    for (uint32_t from = 0; from < 3; ++from) {
      for (uint32_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        ASSERT_TRUE(world.node(from).send(world.node(to), Confirm{from, round}));
      }
    }
    world.turn();
    world.run_for(kMillisecond);
  }
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(world.node(i).received.size(), 200U);
    for (const auto& got : world.node(i).received) {
      EXPECT_EQ(got.from, PeerNode::address(static_cast<uint32_t>(std::get<Confirm>(got.message).epoch)));
    }
    EXPECT_EQ(world.node(i).links().counters().requests_failed, 0U);
    EXPECT_TRUE(world.node(i).failed.empty());
  }
  world.expect_balance();
}

TEST(PeerLinksTest, Reply_ComesToTheHostAlsoMuchLater) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(1).answer = nullptr;
  ASSERT_TRUE(world.node(0).send(world.node(1), Heartbeat{1, 2, 3}));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).tokens.size() == 1; }));
  world.run_for(kSecond);
  EXPECT_TRUE(world.node(0).received.empty());
  PeerNode& other = world.node(1);
  other.tokens[0].reply(other.links().make_frame(other.envelope(), AppendReply{9, {3, 2, 1}}));
  other.tokens.clear();
  other.leases.clear();
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).received.empty(); }));
  const PeerNode::Received& got = world.node(0).received[0];
  EXPECT_TRUE(got.is_reply);
  EXPECT_EQ(got.from, PeerNode::address(1));
  EXPECT_EQ(std::get<AppendReply>(got.message).levels, (LogLevels{3, 2, 1}));
  EXPECT_EQ(world.node(0).links().counters().replies_received, 1U);
  world.expect_balance();
}

TEST(PeerLinksTest, Append_LargeAndSmallArriveByteForByte) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  Rng rng(1);
  size_t released = 0;
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{20'000}, size_t{1} << 20, kAppendBytesMax - 4096}) {
    std::string large(bytes, '\0');
    for (char& c : large) c = static_cast<char>(rng.next());
    const std::vector<std::string> payloads = {"first", large, "last"};
    PeerLinks& links = world.node(0).links();
    AppendBuilder& builder = links.append_builder();
    builder.begin(world.node(0).envelope(), {.epoch = 4, .prev = {8, 3}, .epochs = {}}, links.make_message());
    for (const std::string& payload : payloads) {
      ASSERT_TRUE(builder.add(
          {.epoch = 4, .time = 5, .payload = as_byte_span(payload)},
          [](void* count) { ++*static_cast<size_t*>(count); }, &released));
    }
    world.node(1).received.clear();
    ASSERT_TRUE(links.send(PeerNode::address(1), builder.finish()));
    ASSERT_TRUE(world.run_until([&] { return !world.node(1).received.empty(); })) << bytes;
    EXPECT_EQ(world.node(1).received[0].payloads, payloads);
    EXPECT_EQ(std::get<Append>(world.node(1).received[0].message).epochs, (std::vector<uint64_t>{4, 4, 4}));
    world.run_for(kSecond);
  }
  EXPECT_EQ(released, 15U);
  world.expect_balance();
}

TEST(PeerLinksTest, Loss_OfPacketsChangesNothing) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.network.set_faults({.loss = 0.05, .duplicate = 0.05, .corrupt = 0.02, .reorder = 0.1});
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(world.node(0).send(world.node(1), Confirm{1, i}));
    world.run_for(kMillisecond);
  }
  ASSERT_TRUE(world.run_until([&] { return world.node(1).received.size() == 200; }));
  world.network.set_faults({});
  world.expect_balance();
}

// --- Away, and back

TEST(PeerLinksTest, Down_IsToldAndTriedWithGrowingPausesWhileWanted) {
  PeerWorld world(2);
  world.bootstrap.error = absl::UnavailableError("connection refused");
  const TimeNs started = world.network.now_ns();
  EXPECT_FALSE(world.node(0).send(world.node(1), Release{1}));
  world.run_for(30 * kSecond);
  const std::vector<TimeNs> first = world.bootstrap.describe_times;
  ASSERT_GE(first.size(), 5U);
  ASSERT_LE(first.size(), 30U);
  for (size_t i = 1; i < first.size(); ++i) {
    EXPECT_GE(first[i] - first[i - 1], kPeerPauseMinNs);
    EXPECT_LE(first[i] - first[i - 1], kPeerPauseMaxNs + kMillisecond);
  }
  EXPECT_LE(first.back() - started, 6 * kSecond);  // nobody has wanted it since
  EXPECT_EQ(world.node(0).failed.size(), first.size());
  EXPECT_EQ(world.node(0).failed[0].first, PeerNode::address(1));
  EXPECT_EQ(world.node(0).failed[0].second.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(world.node(0).links().last_error(PeerNode::address(1)).ok());

  world.bootstrap.error = absl::OkStatus();
  ASSERT_TRUE(world.connect(0, 1));
  EXPECT_TRUE(world.node(0).links().last_error(PeerNode::address(1)).ok());
  world.expect_balance();
}

TEST(PeerLinksTest, Bootstrap_ThatNeverAnswersIsGivenUp) {
  PeerWorld world(2);
  world.bootstrap.silent = true;
  EXPECT_FALSE(world.node(0).send(world.node(1), Release{1}));
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).failed.empty(); }));
  EXPECT_EQ(world.node(0).failed[0].second.code(), absl::StatusCode::kDeadlineExceeded);
  world.bootstrap.silent = false;
  ASSERT_TRUE(world.connect(0, 1));
}

TEST(PeerLinksTest, Restart_OfThePeerOpensALinkToItsNextLife) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(1).answer = nullptr;
  ASSERT_TRUE(world.node(0).send(world.node(1), Confirm{1, 1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).tokens.size() == 1; }));
  world.stop(1);
  world.start(1, 2);
  world.introduce_all();
  ASSERT_TRUE(world.run_until([&] { return world.node(0).ready.size() == 2; }));
  EXPECT_EQ(world.node(0).failed.size(), 1U);
  EXPECT_EQ(world.node(0).links().counters().requests_failed, 1U);
  EXPECT_EQ(world.node(0).links().counters().sessions_lost, 1U);
  ASSERT_TRUE(world.node(0).send(world.node(1), Confirm{1, 2}));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).received.size() == 1; }));
  EXPECT_EQ(std::get<Confirm>(world.node(1).received[0].message).round, 2U);
  world.expect_balance();
}

TEST(PeerLinksTest, Restart_KnownLateIsWaitedFor) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.stop(1);
  world.start(1, 2);  // node 0 has not heard of it
  static_cast<void>(world.node(0).send(world.node(1), Release{1}));
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).failed.empty(); }));
  EXPECT_FALSE(world.node(0).links().is_open(PeerNode::address(1)));
  world.introduce_all();
  ASSERT_TRUE(world.connect(0, 1));
  EXPECT_TRUE(world.node(0).links().set_peer({PeerNode::uuid(1), "old:1", 1, 11}).ok());  // older: ignored
  EXPECT_TRUE(world.node(0).links().is_open(PeerNode::address(1)));
}

TEST(PeerLinksTest, Silence_BreaksTheLink) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.network.block(1, 2);
  world.network.block(2, 1);
  ASSERT_TRUE(world.node(0).send(world.node(1), Release{1}));
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).failed.empty(); }));
  EXPECT_EQ(world.node(0).links().counters().requests_failed, 1U);
  world.network.heal();
  ASSERT_TRUE(world.connect(0, 1));
  world.expect_balance();
}

TEST(PeerLinksTest, Drop_EndsTheLink) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(0).links().drop_peer(PeerNode::id(1));
  EXPECT_FALSE(world.node(0).send(world.node(1), Release{1}));
  EXPECT_EQ(world.node(0).links().counters().dropped_unknown, 1U);
  world.run_for(kSecond);
  EXPECT_EQ(world.node(0).endpoint().session_count(), 0U);
  EXPECT_EQ(world.node(1).endpoint().session_count(), 0U);
  EXPECT_TRUE(world.node(0).failed.empty());
}

TEST(PeerLinksTest, CloseAll_OpensNothingAnyMore) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(0).links().close_all();
  EXPECT_FALSE(world.node(0).send(world.node(1), Release{1}));
  world.run_for(kSecond);
  EXPECT_EQ(world.node(0).endpoint().session_count(), 0U);
}

// --- Bounds

TEST(PeerLinksTest, Full_IsToldAndSoIsRoom) {
  PeerLinksOptions options;
  options.requests_max = 8;
  PeerWorld world(2, options);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(1).answer = nullptr;
  size_t sent = 0;
  while (world.node(0).send(world.node(1), Confirm{1, sent})) ++sent;
  EXPECT_EQ(sent, 8U);
  EXPECT_EQ(world.node(0).links().counters().dropped_full, 1U);
  EXPECT_FALSE(world.node(0).links().has_room(PeerNode::address(1), 1));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).tokens.size() == 8; }));
  for (auto& token : world.node(1).tokens) token.reply(rpc::MessagePtr());
  world.node(1).tokens.clear();
  world.node(1).leases.clear();
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).room.empty(); }));
  EXPECT_EQ(world.node(0).room.size(), 1U);
  EXPECT_TRUE(world.node(0).send(world.node(1), Confirm{1, 1}));
  world.node(1).answer = [] { return rpc::MessagePtr(); };
  world.expect_balance();
}

/// Entries wait for the peer's disk. Meanwhile the peer must hear that this node lives.
TEST(PeerLinksTest, Full_OfEntriesHasRoomForHeartbeats) {
  PeerLinksOptions options;
  options.requests_max = 16;
  PeerWorld world(2, options);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(1).answer = nullptr;
  PeerLinks& links = world.node(0).links();
  const auto append = [&] {
    links.append_builder().begin(world.node(0).envelope(), {}, links.make_message());
    EXPECT_TRUE(links.append_builder().add({.payload = as_byte_span(std::string_view("small"))}));
    return links.append_builder().finish();
  };
  size_t sent = 0;
  while (links.send(PeerNode::address(1), append(), true)) ++sent;
  EXPECT_EQ(sent, 14U);
  EXPECT_TRUE(world.node(0).send(world.node(1), Heartbeat{1, 1, 1}));
  EXPECT_TRUE(world.node(0).send(world.node(1), Confirm{1, 1}));
  EXPECT_FALSE(world.node(0).send(world.node(1), Confirm{1, 2}));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).tokens.size() == 16; }));
  for (auto& token : world.node(1).tokens) token.reply(rpc::MessagePtr());
  world.node(1).tokens.clear();
  world.node(1).leases.clear();
  ASSERT_TRUE(world.run_until([&] { return links.has_room(PeerNode::address(1), 1, true); }));
  EXPECT_FALSE(world.node(0).room.empty());
  world.node(1).answer = [] { return rpc::MessagePtr(); };
  world.expect_balance();
}

TEST(PeerLinksTest, Full_OfBytesLetsOneGoWhateverItsSize) {
  PeerLinksOptions options;
  options.bytes_max = 1000;
  PeerWorld world(2, options);
  ASSERT_TRUE(world.connect(0, 1));
  PeerLinks& links = world.node(0).links();
  const std::string payload(5000, 'x');
  const auto append = [&] {
    links.append_builder().begin(world.node(0).envelope(), {}, links.make_message());
    EXPECT_TRUE(links.append_builder().add({.payload = as_byte_span(payload)}));
    return links.append_builder().finish();
  };
  EXPECT_TRUE(links.send(PeerNode::address(1), append()));
  EXPECT_FALSE(links.send(PeerNode::address(1), append()));
  EXPECT_TRUE(world.node(0).send(world.node(1), Heartbeat{1, 1, 1})) << "no data";
  ASSERT_TRUE(world.run_until([&] { return world.node(0).room.size() == 1; }));
  EXPECT_TRUE(links.send(PeerNode::address(1), append()));
  world.expect_balance();
}

/// Each holds what the other sends until the other has said that the session is its own. Nobody may fill the way of the
/// answer, or of the question.
TEST(PeerLinksTest, Questions_DoNotWaitForWhatWaitsForThem) {
  for (const size_t requests_max : {size_t{1}, size_t{256}}) {
    PeerLinksOptions options;
    options.requests_max = requests_max;
    PeerWorld world(2, options);
    for (const uint32_t from : {0U, 1U}) static_cast<void>(world.node(from).send(world.node(1 - from), Release{0}));
    ASSERT_TRUE(world.run_until([&] {
      return world.node(0).links().is_open(PeerNode::address(1)) && world.node(1).links().is_open(PeerNode::address(0));
    }));
    // More than a session's window takes.
    for (const uint32_t from : {0U, 1U}) {
      for (uint64_t i = 0; i < 1000; ++i) static_cast<void>(world.node(from).send(world.node(1 - from), Confirm{1, i}));
    }
    EXPECT_TRUE(world.run_until([&] { return !world.node(0).received.empty() && !world.node(1).received.empty(); },
                                kPeerProofTimeoutNs / 10));
    EXPECT_TRUE(world.run_until([&] { return !world.node(0).room.empty(); }));
    world.expect_balance();
  }
}

TEST(PeerLinksTest, Deadline_EndsARequest) {
  PeerLinksOptions options;
  options.timeout_ns = 100 * kMillisecond;
  PeerWorld world(2, options);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(1).answer = nullptr;
  ASSERT_TRUE(world.node(0).send(world.node(1), Confirm{1, 1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(0).links().counters().requests_failed == 1; }));
  EXPECT_TRUE(world.node(0).links().is_open(PeerNode::address(1)));
  EXPECT_TRUE(world.node(0).links().has_room(PeerNode::address(1), 1));
  world.node(1).tokens.clear();
  world.node(1).leases.clear();
  world.expect_balance();
}

TEST(PeerLinksTest, TooMuchForAMessageIsCounted) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  View view;
  for (NodeId node = 1; node <= kViewMembersMax + 1; ++node) view.members.push_back({node, 1});
  EXPECT_FALSE(world.node(0).send(world.node(1), StartView{view}));
  EXPECT_EQ(world.node(0).links().counters().dropped_refused, 1U);
}

TEST(PeerLinksTest, Refusal_OfAPeerWithTooLittleMemoryIsToldForAWhile) {
  PeerWorld world(2);
  world.stop(1);
  world.endpoint_options.memory_limit_bytes = 8 << 20;
  world.endpoint_options.keeps_memory_reserve = true;
  world.start(1, 2);
  world.introduce_all();
  ASSERT_TRUE(world.connect(0, 1));
  PeerLinks& links = world.node(0).links();
  EXPECT_THAT(links.refusals(), IsEmpty());
  const std::string large(size_t{6} << 20, 'v');
  AppendBuilder& builder = links.append_builder();
  builder.begin(world.node(0).envelope(), {.epoch = 4, .prev = {8, 3}, .epochs = {}}, links.make_message());
  ASSERT_TRUE(builder.add(
      {.epoch = 4, .time = 5, .payload = as_byte_span(large)}, [](void*) {}, nullptr));
  ASSERT_TRUE(links.send(PeerNode::address(1), builder.finish()));
  ASSERT_TRUE(world.run_until([&] { return links.counters().requests_failed == 1; }));
  EXPECT_THAT(links.refusals(), ElementsAre(AllOf(HasSubstr("worker 0 of node " + PeerNode::uuid(1)),
                                                  HasSubstr("give the peer more message memory"))));
  // What fits goes on, and does not hide the refusal.
  ASSERT_TRUE(world.node(0).send(world.node(1), Confirm{1, 1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).received.size() == 1; }));
  EXPECT_THAT(links.refusals(), SizeIs(1));
  world.run_for(kPeerRefusesNs);
  EXPECT_THAT(links.refusals(), IsEmpty());
  world.expect_balance();
}

TEST(PeerLinksTest, Refusal_ForNowIsNotTold) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(1).answer = nullptr;
  ASSERT_TRUE(world.node(0).send(world.node(1), Confirm{1, 1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).tokens.size() == 1; }));
  world.node(1).tokens[0].fail(absl::ResourceExhaustedError("no memory now"));
  world.node(1).tokens.clear();
  world.node(1).leases.clear();
  ASSERT_TRUE(world.run_until([&] { return world.node(0).links().counters().requests_failed == 1; }));
  EXPECT_THAT(world.node(0).links().refusals(), IsEmpty());
}

TEST(PeerLinksTest, Opening_ToAnotherEndpointThanAskedForFails) {
  PeerWorld world(3);
  world.bootstrap.answers_instead = PeerNode::grpc(2);
  EXPECT_FALSE(world.node(0).send(world.node(1), Release{1}));
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).failed.empty(); }));
  EXPECT_FALSE(world.node(0).links().is_open(PeerNode::address(1)));
  world.bootstrap.answers_instead.clear();
  ASSERT_TRUE(world.connect(0, 1));
}

TEST(PeerLinksTest, Opening_OfAWorkerThatIsNotThereFails) {
  PeerWorld world(2);
  PeerLinks& links = world.node(0).links();
  EXPECT_FALSE(links.send(PeerNode::address(1, 5), links.make_frame(world.node(0).envelope(), Release{1})));
  ASSERT_TRUE(world.run_until([&] { return !world.node(0).failed.empty(); }));
  EXPECT_EQ(world.node(0).failed[0].first, PeerNode::address(1, 5));
  EXPECT_EQ(world.node(0).failed[0].second.code(), absl::StatusCode::kFailedPrecondition);
}

static_assert(kPeerWorkersMax == control::kWorkersPerNodeMax);

TEST(PeerLinksTest, Refused_WorkersThatNoNodeHas) {
  PeerWorld world(2);
  PeerLinks& links = world.node(0).links();
  const auto frame = [&] { return links.make_frame(world.node(0).envelope(), Release{1}); };
  EXPECT_FALSE(links.send(PeerNode::address(1, kPeerWorkersMax), frame()));
  EXPECT_FALSE(links.send(PeerNode::address(1, UINT32_MAX), frame()));
  EXPECT_EQ(links.counters().dropped_unknown, 2U);
  EXPECT_EQ(links.link_count(), 0U);
  EXPECT_EQ(links.last_error(PeerNode::address(1, kPeerWorkersMax)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(links.last_error(PeerNode::address(7)).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(links.send(PeerNode::address(1, kPeerWorkersMax - 1), frame()));
  EXPECT_EQ(links.link_count(), 1U) << "how many it has is not known, and it may have so many";
}

TEST(PeerLinksTest, Kept_NoLongerThanWantedAndAWhile) {
  PeerWorld world(2);
  PeerLinks& links = world.node(0).links();
  ASSERT_TRUE(world.connect(0, 1));
  EXPECT_FALSE(links.send(PeerNode::address(1, 5), links.make_frame(world.node(0).envelope(), Release{1})));
  EXPECT_EQ(links.link_count(), 2U);
  world.run_for(kPeerLinkKeptNs);
  EXPECT_TRUE(links.is_open(PeerNode::address(1))) << "wanted for some time, and kept for this long after it";
  world.run_for(10 * kSecond);
  EXPECT_EQ(links.link_count(), 0U);
  EXPECT_EQ(world.node(0).endpoint().session_count(), 0U);
  EXPECT_EQ(world.node(1).endpoint().session_count(), 0U);
  // And again, when somebody wants it.
  ASSERT_TRUE(world.connect(0, 1));
  for (int i = 0; i < 20; ++i) {
    world.run_for(kPeerLinkKeptNs / 10);
    EXPECT_TRUE(world.node(0).send(world.node(1), Release{2})) << "it is in use: nothing ends it";
  }
  EXPECT_EQ(links.counters().sessions_opened, 2U);
}

TEST(PeerLinksTest, Kept_AsLongAsARequestIsUnderWay) {
  PeerLinksOptions options;
  options.timeout_ns = 1000 * kSecond;
  PeerWorld world(2, options);
  ASSERT_TRUE(world.connect(0, 1));
  world.node(1).answer = nullptr;
  ASSERT_TRUE(world.node(0).send(world.node(1), Release{1}));
  world.run_for(3 * kPeerLinkKeptNs);
  ASSERT_EQ(world.node(1).tokens.size(), 1U);
  EXPECT_TRUE(world.node(0).links().is_open(PeerNode::address(1)));
  world.node(1).tokens.clear();
  world.node(1).leases.clear();
  world.run_for(3 * kPeerLinkKeptNs);
  EXPECT_EQ(world.node(0).links().link_count(), 0U);
}

TEST(PeerLinksTest, SetPeer_RefusesWhatIsNoUuid) {
  PeerWorld world(2);
  EXPECT_EQ(world.node(0).links().set_peer({"node1", "a:1", 1, 1}).code(), absl::StatusCode::kInvalidArgument);
}

// --- Over TCP: the end of a process is known at once, without any time-out.

TEST(PeerLinksTest, Tcp_DeathOfThePeerIsToldAtOnce) {
  const TscClock clock;
  FakeBootstrap bootstrap;
  bootstrap.clock = &clock;
  rpc::EndpointOptions endpoint_options;
  endpoint_options.protocol.ping_after_ns = 1800 * kSecond;
  endpoint_options.protocol.peer_timeout_ns = 3600 * kSecond;
  const auto start = [&](uint32_t number, uint64_t incarnation) {
    rpc::TcpOptions options;
    options.listen_ip = "127.0.0.1";
    options.self = worker_identity(PeerNode::uuid(number), incarnation, kPeerCluster, 0).value();
    auto node = std::make_unique<PeerNode>(number, incarnation, rpc::TcpTransport::create(std::move(options)).value(),
                                           clock, bootstrap, PeerLinksOptions{}, endpoint_options);
    bootstrap.nodes[PeerNode::grpc(number)] = node.get();
    return node;
  };
  std::unique_ptr<PeerNode> a = start(0, 1);
  std::unique_ptr<PeerNode> b = start(1, 1);
  ASSERT_TRUE(a->links().set_peer(b->info()).ok());
  ASSERT_TRUE(b->links().set_peer(a->info()).ok());
  const auto run_until = [&](const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < give_up) {
      for (PeerNode* node : {a.get(), b.get()}) {
        if (node == nullptr) continue;
        node->endpoint().poll();
        static_cast<void>(node->links().tick());
      }
    }
    return done();
  };
  static_cast<void>(a->send(*b, Release{1}));
  ASSERT_TRUE(run_until([&] { return a->links().is_open(PeerNode::address(1)); }));
  ASSERT_TRUE(a->send(*b, Release{1}));
  ASSERT_TRUE(run_until([&] { return b->received.size() == 1; }));

  // Each sees the other one's end: the opener of the session, and who accepted it.
  bootstrap.nodes.erase(PeerNode::grpc(0));
  a.reset();
  ASSERT_TRUE(run_until([&] { return !b->failed.empty(); }));
  EXPECT_EQ(b->failed[0].first, PeerNode::address(0));

  a = start(0, 2);
  ASSERT_TRUE(b->links().set_peer(a->info()).ok());
  ASSERT_TRUE(a->links().set_peer(b->info()).ok());
  static_cast<void>(a->send(*b, Release{1}));
  ASSERT_TRUE(run_until([&] { return a->links().is_open(PeerNode::address(1)); }));
  ASSERT_TRUE(a->send(*b, Release{2}));
  ASSERT_TRUE(run_until([&] { return b->received.size() == 2; }));
  bootstrap.nodes.erase(PeerNode::grpc(1));
  b.reset();
  ASSERT_TRUE(run_until([&] { return !a->failed.empty(); }));
  EXPECT_EQ(a->failed[0].first, PeerNode::address(1));
  EXPECT_TRUE(run_until([&] { return a->links().counters().sessions_lost == 1; }));
}

}  // namespace
}  // namespace skua::kv
