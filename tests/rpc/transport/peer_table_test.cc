#include "rpc/transport/peer_table.h"

#include <gtest/gtest.h>

#include <map>

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
  Uuid uuid;
  Place source;
  TimeNs last_used_ns = 0;
};

using Table = PeerTable<Place, Known>;

Uuid uuid_of(uint64_t number) {
  Uuid out;
  store_le(reinterpret_cast<std::byte*>(out.bytes.data()), number + 1);
  return out;
}

Known known(uint64_t number, uint64_t place, TimeNs now = 0) {
  return {uuid_of(number), {place}, now};
}

TEST(PeerTable, Put_SameUuidSameId) {
  Table table(8);
  const PeerId first = table.put(known(1, 10)).value();
  const PeerId second = table.put(known(2, 20)).value();
  EXPECT_NE(first, second);
  EXPECT_EQ(table.put(known(1, 30)).value(), first);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.find({10}), kNoPeer) << "it has moved";
  EXPECT_EQ(table.find({30}), first);
  EXPECT_EQ(table.find_uuid(uuid_of(2)), second);
  EXPECT_EQ(table.find_uuid(uuid_of(3)), kNoPeer);
}

TEST(PeerTable, Put_ANewUuidAtAnOldPlaceIsTheOneFound) {
  Table table(8);
  const PeerId before = table.put(known(1, 10)).value();
  const PeerId after = table.put(known(2, 10)).value();
  EXPECT_EQ(table.find({10}), after);
  // What the earlier one does now leaves the later one findable.
  EXPECT_EQ(table.put(known(1, 11)).value(), before);
  EXPECT_EQ(table.find({10}), after);
}

TEST(PeerTable, Put_FullTableGivesAwayTheOneSilentForLongest) {
  Table table(2);
  const PeerId first = table.put(known(1, 10, 0)).value();
  const PeerId second = table.put(known(2, 20, kSecond)).value();
  EXPECT_EQ(table.put(known(3, 30, 2 * kSecond)).status().code(), absl::StatusCode::kResourceExhausted);
  table.at(first).last_used_ns = Table::kForgottenAfter;
  EXPECT_EQ(table.put(known(3, 30, Table::kForgottenAfter + kSecond)).value(), second);
  EXPECT_EQ(table.find({20}), kNoPeer);
  EXPECT_EQ(table.find_uuid(uuid_of(2)), kNoPeer);
  EXPECT_EQ(table.find({30}), second);
  EXPECT_EQ(table.find({10}), first);
}

TEST(PeerTable, Find_AgreesWithAMapForRandomMoves) {
  Table table(64);
  Rng rng(5);
  std::map<uint64_t, uint64_t> at;  // place -> uuid
  for (int turn = 0; turn < 5000; ++turn) {
    const uint64_t uuid = rng.below(40);
    const uint64_t place = rng.below(60);
    std::erase_if(at, [&](const auto& entry) { return entry.second == uuid; });
    at[place] = uuid;
    ASSERT_TRUE(table.put(known(uuid, place)).ok());
    for (uint64_t p = 0; p < 60; ++p) {
      const PeerId found = table.find({p});
      ASSERT_EQ(found != kNoPeer, at.contains(p)) << p;
      if (found == kNoPeer) continue;
      ASSERT_EQ(table.at(found).uuid, uuid_of(at[p]));
    }
  }
}

}  // namespace
}  // namespace skua::rpc
