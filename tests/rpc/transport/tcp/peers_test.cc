// PeerTable: ids, its bound, and how link events fold.
#include "rpc/transport/tcp/peers.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

using Kind = LinkEvent::Kind;

LinkEvent event_of(PeerId peer, Kind kind, uint64_t incarnation = 0) {
  LinkEvent event;
  event.peer = peer;
  event.kind = kind;
  event.identity.incarnation = incarnation;
  return event;
}

std::vector<std::pair<Kind, uint64_t>> drain(PeerTable& table) {
  std::vector<std::pair<Kind, uint64_t>> out;
  std::array<LinkEvent, 1> events;
  while (table.poll(events) == 1) out.emplace_back(events[0].kind, events[0].identity.incarnation);
  return out;
}

TEST(PeerTable, Resolve_OneIdPerUuid) {
  PeerTable table(2, {});
  const PeerId first = (*table.resolve(make_uuid(1)))->id;
  const PeerId second = (*table.resolve(make_uuid(2)))->id;
  EXPECT_NE(first, second);
  EXPECT_EQ((*table.resolve(make_uuid(1)))->id, first);
  const auto full = table.resolve(make_uuid(3));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.status().message()), ::testing::HasSubstr("peers_max"));
}

TEST(PeerTable, ACaller_NeverGetsWhatAnotherHas) {
  PeerTable table(8, {});
  const PeerId resolved = (*table.resolve(make_uuid(1)))->id;
  const PeerId caller = (*table.add_caller(make_uuid(1)))->id;
  const PeerId liar = (*table.add_caller(make_uuid(1)))->id;
  EXPECT_NE(caller, resolved);
  EXPECT_NE(liar, resolved);
  EXPECT_NE(liar, caller);
  EXPECT_EQ((*table.resolve(make_uuid(1)))->id, resolved);
}

TEST(PeerTable, Full_ReusesTheCallerGoneLongest) {
  PeerTable table(3, {});
  (void)table.resolve(make_uuid(1));
  (void)table.add_caller(make_uuid(2));
  (void)table.add_caller(make_uuid(3));
  table.retire(table.at(0));
  EXPECT_FALSE(table.add_caller(make_uuid(9)).ok()) << "a resolved peer keeps its id";
  table.retire(table.at(2));
  table.retire(table.at(1));
  table.push_event(event_of(2, Kind::kDown));
  // Peer 2 has an event that the engine has not seen, so the next one goes.
  EXPECT_EQ((*table.add_caller(make_uuid(9)))->id, 1U);
  EXPECT_FALSE(table.add_caller(make_uuid(2)).ok());
  (void)drain(table);
  EXPECT_EQ((*table.add_caller(make_uuid(2)))->id, 2U);
}

/// What sessions use, by id.
struct Used : PeerUse {
  [[nodiscard]] bool is_used(PeerId peer) const override { return ids.contains(peer); }
  std::set<PeerId> ids;
};

TEST(PeerTable, Full_ReusesAResolvedPeerThatNobodyUses) {
  PeerTable table(4, {});
  Used use;
  for (uint8_t number = 1; number <= 4; ++number) ASSERT_EQ((*table.resolve(make_uuid(number)))->id, number - 1U);
  EXPECT_FALSE(table.resolve(make_uuid(5)).ok()) << "it is not known who is used";
  use.ids = {0, 2};
  table.set_peer_use(&use);
  table.at(1).wanted = true;
  ASSERT_TRUE(table.resolve(make_uuid(5)).ok());
  EXPECT_EQ((*table.resolve(make_uuid(5)))->id, 3U);
  EXPECT_EQ((*table.resolve(make_uuid(1)))->id, 0U);
  use.ids = {0, 2, 3};
  EXPECT_FALSE(table.add_caller(make_uuid(6)).ok()) << "the last one is to be dialled";
  table.at(1).wanted = false;
  EXPECT_EQ((*table.add_caller(make_uuid(6)))->id, 1U);
  EXPECT_FALSE(table.resolve(make_uuid(4)).ok()) << "it was forgotten";
}

TEST(PeerTable, CallersThatLeft_AreUsedAgainWhenManyHave) {
  PeerTable table(1 << 20, {});
  for (size_t i = 0; i < 4 * kCallersKept; ++i) table.retire(**table.add_caller(make_uuid(2)));
  EXPECT_LE(table.size(), kCallersKept + 1);
}

TEST(PeerTable, Events_FoldToWhatMatters) {
  PeerTable table(4, {});
  (void)table.resolve(make_uuid(1));
  (void)table.resolve(make_uuid(2));
  EXPECT_FALSE(table.has_events());
  // Up, then lost: the engine needs to know of the loss only.
  table.push_event(event_of(0, Kind::kUp, 1));
  table.push_event(event_of(0, Kind::kDown, 1));
  EXPECT_THAT(drain(table), ::testing::ElementsAre(std::pair(Kind::kDown, 1U)));
  // Any number of flaps: a loss, and that it stands again.
  for (uint64_t i = 1; i < 9; ++i) {
    table.push_event(event_of(0, Kind::kDown, i));
    table.push_event(event_of(0, Kind::kUp, i + 1));
  }
  table.push_event(event_of(1, Kind::kUp, 77));
  EXPECT_THAT(drain(table),
              ::testing::ElementsAre(std::pair(Kind::kDown, 8U), std::pair(Kind::kUp, 9U), std::pair(Kind::kUp, 77U)));
  EXPECT_FALSE(table.has_events());
}

}  // namespace
}  // namespace skua::rpc::tcp
