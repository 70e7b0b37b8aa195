#include "rpc/transport/peer_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

struct Place {
  uint64_t number = 0;

  bool operator==(const Place&) const = default;
  // Few values on purpose: the cache's slots are shared.
  [[nodiscard]] uint64_t mix() const { return number << 60; }
  template <typename H>
  friend H AbslHashValue(H state, const Place& place) {
    return H::combine(std::move(state), place.number);
  }
};

struct Known {
  Place source;
  TimeNs last_used_ns = 0;
  int what = 0;
};

using Table = PeerTable<Place, Known>;

/// The engine's part.
struct Sessions final : PeerUse {
  std::set<PeerId> peers;
  [[nodiscard]] bool is_used(PeerId peer) const override { return peers.contains(peer); }
};

TEST(PeerTable, Put_SamePlaceSameId) {
  Table table(8);
  const PeerId first = table.put({{10}}, kSecond).value();
  const PeerId second = table.put({{20}}, kSecond).value();
  EXPECT_NE(first, second);
  table.at(first).last_used_ns = 2 * kSecond;
  EXPECT_EQ(table.put({{10}, 0, 7}, 3 * kSecond).value(), first);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.at(first).what, 7);
  EXPECT_EQ(table.at(first).last_used_ns, 2 * kSecond) << "what the transport keeps";
  EXPECT_EQ(table.find({10}), first);
  EXPECT_EQ(table.find({20}), second);
  EXPECT_EQ(table.find({30}), kNoPeer);
}

TEST(PeerTable, MayReplace_ClaimsNotWhatSessionsUseHoweverSilent) {
  Sessions sessions;
  Table table(8);
  const PeerId id = table.put({{10}}, kSecond).value();
  EXPECT_TRUE(table.may_replace(id, PeerWord::kClaim)) << "nobody says what is in use";
  table.set_use(&sessions);
  EXPECT_TRUE(table.may_replace(id, PeerWord::kClaim));
  sessions.peers.insert(id);
  table.at(id).last_used_ns = 1;  // long ago
  EXPECT_TRUE(table.is_in_use(id));
  EXPECT_FALSE(table.may_replace(id, PeerWord::kClaim));
  EXPECT_TRUE(table.may_replace(id, PeerWord::kOwnDial));
  sessions.peers.erase(id);
  table.at(id).last_used_ns = kSecond;  // just now, and yet nobody's
  EXPECT_TRUE(table.may_replace(id, PeerWord::kClaim));
}

/// A session's pings may be minutes apart.
TEST(PeerTable, Put_FullTableNeverGivesAwayWhatSessionsUse) {
  Sessions sessions;
  Table table(2);
  table.set_use(&sessions);
  const PeerId first = table.put({{10}}, kSecond).value();
  const PeerId second = table.put({{20}}, kSecond).value();
  table.at(first).last_used_ns = kSecond;
  table.at(second).last_used_ns = 2 * kSecond;
  const TimeNs much_later = 10 * Table::kForgottenAfter;
  sessions.peers = {first};
  EXPECT_EQ(table.put({{30}}, much_later).value(), second) << "used later, but by no session";
  sessions.peers = {first, second};
  table.at(second).last_used_ns = much_later;
  EXPECT_EQ(table.put({{40}}, 2 * much_later).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table.find({10}), first);
  EXPECT_EQ(table.find({30}), second);
}

/// Answers to claims count as sent, and cost whoever claims nothing: dials find room all the same.
TEST(PeerTable, Put_FullTableGivesAwayAtOnceWhatNoSessionUses) {
  Sessions sessions;
  Table table(2);
  table.set_use(&sessions);
  for (uint64_t place = 10; place < 30; place += 10) {
    const PeerId id = table.put({{place}}, kSecond).value();
    table.at(id).last_used_ns = kSecond;
  }
  EXPECT_TRUE(table.put({{30}}, kSecond + 1).ok());
}

/// A dial whose handshake goes another way has sent nothing yet, and strangers' claims do not take its id meanwhile.
TEST(PeerTable, Put_ManyClaimsDoNotTakeADialsId) {
  Sessions sessions;
  Table table(65'536);
  table.set_use(&sessions);
  const PeerId dialled = table.put({{1}}, kSecond).value();
  sessions.peers = {dialled};
  for (uint64_t place = 2; place < 10'000; ++place) ASSERT_TRUE(table.put({{place}}, kSecond).ok());
  EXPECT_EQ(table.find({1}), dialled);
  EXPECT_LE(table.size(), Table::kUnusedMax + 2);
  sessions.peers.clear();
  for (uint64_t place = 10'000; place < 20'000; ++place) ASSERT_TRUE(table.put({{place}}, kSecond).ok());
  EXPECT_EQ(table.find({1}), kNoPeer) << "the session has ended without a packet";
}

TEST(PeerTable, Put_FullTableGivesAwayTheOneUnusedForLongest) {
  Table table(2);
  const PeerId first = table.put({{10}}, kSecond).value();
  const PeerId second = table.put({{20}}, kSecond).value();
  table.at(first).last_used_ns = table.at(second).last_used_ns = kSecond;
  EXPECT_EQ(table.put({{30}}, 2 * kSecond).status().code(), absl::StatusCode::kResourceExhausted);
  table.at(first).last_used_ns = Table::kForgottenAfter;
  EXPECT_EQ(table.put({{30}}, Table::kForgottenAfter + kSecond).value(), second);
  EXPECT_EQ(table.find({20}), kNoPeer);
  EXPECT_EQ(table.find({30}), second);
  EXPECT_EQ(table.find({10}), first);
}

/// Descriptors of strangers name any number of addresses.
TEST(PeerTable, Put_PlacesThatAreNeverUsedTakeNobodysRoom) {
  Table table(65'536);
  const PeerId used = table.put({{1}}, kSecond).value();
  table.at(used).last_used_ns = kSecond;
  for (uint64_t place = 2; place < 200'000; ++place) ASSERT_TRUE(table.put({{place}}, kSecond).ok());
  EXPECT_EQ(table.find({1}), used);
  EXPECT_LE(table.size(), Table::kUnusedMax + 2);
  EXPECT_NE(table.find({199'999}), kNoPeer);
  EXPECT_EQ(table.find({2}), kNoPeer);
}

/// Against a map, with places that come, are used, and are given away.
TEST(PeerTable, Find_AgreesWithAMap) {
  Table table(64);
  Rng rng(5);
  std::map<uint64_t, PeerId> at;
  for (int turn = 1; turn < 5000; ++turn) {
    const TimeNs now = turn * 10 * kSecond;
    const uint64_t place = rng.below(200);
    const absl::StatusOr<PeerId> id = table.put({{place}}, now);
    ASSERT_TRUE(id.ok());
    std::erase_if(at, [&](const auto& entry) { return entry.second == *id; });
    at[place] = *id;
    if (rng.chance(0.5)) table.at(*id).last_used_ns = now;
    for (uint64_t p = 0; p < 200; ++p) {
      const auto expected = at.find(p);
      ASSERT_EQ(table.find({p}), expected == at.end() ? kNoPeer : expected->second) << p;
    }
  }
}

}  // namespace
}  // namespace skua::rpc
