#include "rpc/memory_shares.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

constexpr size_t kLimit = 800;

Payer stranger(PeerId peer, uint64_t host) {
  return {.peer = peer, .host = host, .is_node = false};
}

TEST(MemoryShares, APeerHasItsPart) {
  MemoryShares shares(kLimit);
  shares.take(stranger(1, 1), 60);
  EXPECT_TRUE(shares.may_take(stranger(1, 1), 40));
  EXPECT_FALSE(shares.may_take(stranger(1, 1), 41));
  shares.give(stranger(1, 1), 60);
  EXPECT_TRUE(shares.may_take(stranger(1, 1), 500)) << "the first message may be of any size";
}

TEST(MemoryShares, AHostHasItsPartHoweverManyConnectionsItMakes) {
  MemoryShares shares(kLimit);
  PeerId peer = 1;
  size_t taken = 0;
  for (; shares.may_take(stranger(peer, 7), 90); ++peer, taken += 90) shares.take(stranger(peer, 7), 90);
  EXPECT_EQ(taken, 360u);
  EXPECT_TRUE(shares.may_take(stranger(peer, 8), 90)) << "other hosts have their own";
}

TEST(MemoryShares, NodesHaveRoomThatNobodyElseTakes) {
  MemoryShares shares(kLimit);
  PeerId peer = 1;
  size_t taken = 0;
  for (; shares.may_take(stranger(peer, peer), 90); ++peer, taken += 90) shares.take(stranger(peer, peer), 90);
  EXPECT_EQ(taken, 540u);
  EXPECT_TRUE(shares.may_take({.peer = 99, .host = 99, .is_node = true}, 90));
}

TEST(MemoryShares, WhatIsNobodysIsNotCounted) {
  MemoryShares shares(kLimit);
  EXPECT_TRUE(shares.may_take({}, 10 * kLimit));
  shares.take({}, 10 * kLimit);
  EXPECT_TRUE(shares.may_take(stranger(1, 1), 100));
  shares.give({}, 10 * kLimit);
}

/// Against sums over a list.
TEST(MemoryShares, AgreesWithItsTwin) {
  MemoryShares shares(kLimit);
  struct Taken {
    Payer payer;
    size_t bytes;
  };
  std::vector<Taken> all;
  Rng rng(1);
  const auto held = [&](auto&& counts) {
    size_t sum = 0;
    for (const Taken& one : all) sum += counts(one.payer) ? one.bytes : 0;
    return sum;
  };
  for (int i = 0; i < 20'000; ++i) {
    if (!all.empty() && rng.below(2) == 0) {
      std::swap(all[rng.below(all.size())], all.back());
      shares.give(all.back().payer, all.back().bytes);
      all.pop_back();
      continue;
    }
    const auto peer = static_cast<PeerId>(rng.below(12));
    const Payer payer{.peer = peer, .host = peer / 4, .is_node = peer % 5 == 0};
    const size_t bytes = rng.below(150);
    const size_t of_peer = held([&](const Payer& p) { return p.peer == payer.peer; });
    const size_t of_host = held([&](const Payer& p) { return p.host == payer.host; });
    const size_t of_strangers = held([&](const Payer& p) { return !p.is_node; });
    const bool may = (of_peer == 0 || of_peer + bytes <= kLimit / 8) &&
                     (of_host == 0 || of_host + bytes <= kLimit / 2) &&
                     (payer.is_node || of_strangers == 0 || of_strangers + bytes <= kLimit / 4 * 3);
    ASSERT_EQ(shares.may_take(payer, bytes), may);
    if (!may) continue;
    shares.take(payer, bytes);
    all.push_back({payer, bytes});
  }
}

}  // namespace
}  // namespace skua::rpc
