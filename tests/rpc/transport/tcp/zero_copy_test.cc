// ZeroCopySends against a plain list: whichever of kernel and peer is first.
#include "rpc/transport/tcp/zero_copy.h"

#include <deque>
#include <vector>

#include "gtest/gtest.h"
#include "rpc/base/rng.h"
#include "rpc/transport/tcp/dialect.h"

namespace skua::rpc::tcp {
namespace {

std::vector<TxToken> reap_all(TxCompletions& completions) {
  std::vector<TxToken> tokens(10'000);
  tokens.resize(completions.reap(tokens));
  return tokens;
}

/// One packet in one write.
void send(ZeroCopySends& sends, TxToken token, TxCompletions& completions) {
  const uint32_t write = sends.add_write();
  sends.add_asked();
  sends.wait_for(token, write, true, completions);
}

TEST(ZeroCopySends, KernelFirst) {
  ZeroCopySends sends;
  TxCompletions completions;
  EXPECT_FALSE(sends.can_write());
  sends.turn_on(true);
  EXPECT_TRUE(sends.can_write());
  for (TxToken token = 1; token <= 3; ++token) send(sends, token, completions);
  sends.on_writes_done(0, 1, completions);
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{1, 2}));
  EXPECT_TRUE(sends.on_peer_has(2, completions));
  EXPECT_TRUE(reap_all(completions).empty()) << "known already";
  EXPECT_TRUE(sends.on_peer_has(3, completions));
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{3}));
  sends.on_writes_done(2, 2, completions);
  EXPECT_TRUE(reap_all(completions).empty());
}

TEST(ZeroCopySends, PeerFirst) {
  ZeroCopySends sends;
  TxCompletions completions;
  sends.turn_on(true);
  for (TxToken token = 1; token <= 3; ++token) send(sends, token, completions);
  EXPECT_TRUE(sends.on_peer_has(2, completions));
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{1, 2}));
  sends.on_writes_done(0, 2, completions);
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{3}));
  EXPECT_FALSE(sends.has_waiting());
}

TEST(ZeroCopySends, PeerThatClaimsTooMuch_IsFound) {
  ZeroCopySends sends;
  TxCompletions completions;
  sends.turn_on(true);
  send(sends, 1, completions);
  for (const uint32_t claim : {2U, 100U, kNoticeMask}) EXPECT_FALSE(sends.on_peer_has(claim, completions));
  EXPECT_TRUE(sends.on_peer_has(1, completions));
  EXPECT_FALSE(sends.on_peer_has(0, completions)) << "back";
  // A packet that did not ask is not the peer's to tell.
  sends.wait_for(2, sends.add_write(), false, completions);
  EXPECT_FALSE(sends.on_peer_has(2, completions));
  EXPECT_EQ(sends.waiting_count(), 1U);
}

TEST(ZeroCopySends, NotesOutOfOrderOrOfNothing_AreHarmless) {
  ZeroCopySends sends;
  TxCompletions completions;
  sends.turn_on(false);
  EXPECT_FALSE(sends.asks());
  for (TxToken token = 1; token <= 4; ++token) sends.wait_for(token, sends.add_write(), false, completions);
  sends.on_writes_done(2, 3, completions);
  sends.on_writes_done(4, 9, completions);
  sends.on_writes_done(UINT32_MAX, 0, completions);
  sends.on_writes_done(3, 2, completions);
  EXPECT_TRUE(reap_all(completions).empty());
  sends.on_writes_done(0, 0, completions);
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{1}));
  sends.on_writes_done(1, 1, completions);
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{2, 3, 4}));
}

TEST(ZeroCopySends, NoMemory_PausesUntilANote) {
  ZeroCopySends sends;
  TxCompletions completions;
  sends.turn_on(true);
  send(sends, 1, completions);
  sends.on_no_memory();
  EXPECT_FALSE(sends.can_write());
  sends.on_writes_done(0, 0, completions);
  EXPECT_TRUE(sends.can_write());
  sends.on_no_memory();
  EXPECT_FALSE(sends.is_on()) << "no note will come that could end it";
}

TEST(ZeroCopySends, PacketWhoseWritesAreDoneAlready_WaitsForNothing) {
  ZeroCopySends sends;
  TxCompletions completions;
  sends.turn_on(false);
  const uint32_t write = sends.add_write();
  sends.on_writes_done(write, write, completions);
  sends.turn_off();
  sends.wait_for(7, write, false, completions);
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{7}));
}

TEST(ZeroCopySends, Bounded_AndAllComeBack) {
  ZeroCopySends sends;
  TxCompletions completions;
  sends.turn_on(true);
  TxToken token = 0;
  while (sends.can_write()) send(sends, ++token, completions);
  EXPECT_GT(token, 100U);
  EXPECT_LE(token, kZeroCopyWaitingMax);
  sends.turn_off();
  sends.complete_all(completions);
  EXPECT_EQ(reap_all(completions).size(), token);
  EXPECT_FALSE(sends.has_waiting());
}

TEST(ZeroCopySends, RandomRun_EqualsAList) {
  struct Packet {
    TxToken token;
    uint32_t last_write;
    uint64_t ask;
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    ZeroCopySends sends;
    TxCompletions completions;
    sends.turn_on(true);
    std::deque<Packet> waiting;
    std::vector<TxToken> expected;
    std::vector<TxToken> got;
    uint32_t writes = 0;
    uint32_t done = 0;
    uint64_t asked = 0;
    uint64_t has = 0;
    TxToken token = 0;
    for (int step = 0; step < 20'000; ++step) {
      if (rng.chance(0.5) && sends.can_write()) {
        for (uint64_t parts = 1 + rng.below(3); parts > 0; --parts) writes = sends.add_write() + 1;
        sends.add_asked();
        sends.wait_for(++token, writes - 1, true, completions);
        waiting.push_back({token, writes - 1, ++asked});
      } else if (rng.chance(0.5) && done < writes) {
        const auto count = static_cast<uint32_t>(1 + rng.below(writes - done));
        sends.on_writes_done(done, done + count - 1, completions);
        done += count;
      } else if (has < asked) {
        has += rng.below(asked - has + 1);
        ASSERT_TRUE(sends.on_peer_has(static_cast<uint32_t>(has & kNoticeMask), completions));
      }
      for (; !waiting.empty() && (waiting.front().last_write < done || waiting.front().ask <= has);
           waiting.pop_front()) {
        expected.push_back(waiting.front().token);
      }
      const std::vector<TxToken> now = reap_all(completions);
      got.insert(got.end(), now.begin(), now.end());
      ASSERT_EQ(got.size(), expected.size());
    }
    EXPECT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace skua::rpc::tcp
