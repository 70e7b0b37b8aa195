// The handshake of connected queue pairs: what its decoder refuses, and that two sides agree over any network that
// delivers at last.
#include "rpc/transport/verbs/rc_handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc::verbs {
namespace {

using State = ConnectMessage::State;

ConnectMessage message_of(uint64_t generation, uint64_t echo, State state = State::kOpen) {
  ConnectMessage out;
  out.state = state;
  out.reads_served = 16;
  out.qp_number = 77;
  out.psn = 0xffffff;
  out.generation = generation;
  out.echo = echo;
  return out;
}

// --- Messages --------------------------------------------------------------------------------------------------------

TEST(ConnectMessage, Decode_WhatWasEncoded) {
  const ConnectMessage message = message_of(12, 13, State::kReady);
  const auto bytes = message.encode();
  EXPECT_TRUE(ConnectMessage::is_one(bytes));
  EXPECT_EQ(ConnectMessage::decode(bytes), message);
}

TEST(ConnectMessage, Decode_RefusesEverythingElse) {
  const auto good = message_of(12, 13).encode();
  std::vector<std::byte> longer(good.begin(), good.end());
  longer.push_back({});
  EXPECT_FALSE(ConnectMessage::decode(longer).has_value());
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(ConnectMessage::decode(std::span(good).first(size)));
  // Magic, version, state, READs, zero, and the highest bytes of the numbers.
  for (const size_t at : {0U, 7U, 8U, 9U, 11U, 15U, 19U, 20U, 23U}) {
    auto bad = good;
    bad[at] = static_cast<std::byte>(0xee);
    EXPECT_FALSE(ConnectMessage::decode(bad).has_value()) << at;
  }
  ConnectMessage bad = message_of(0, 0);
  EXPECT_FALSE(ConnectMessage::decode(bad.encode()).has_value());
  bad = message_of(1, 0);
  bad.reads_served = 0;
  EXPECT_FALSE(ConnectMessage::decode(bad.encode()).has_value());
  bad = message_of(1, 0);
  bad.qp_number = 1;
  EXPECT_FALSE(ConnectMessage::decode(bad.encode()).has_value());
}

TEST(ConnectMessage, IsOne_NoEnginePacketIs) {
  std::array<std::byte, 40> packet{};
  packet[0] = std::byte{0x11};
  EXPECT_FALSE(ConnectMessage::is_one(packet));
  EXPECT_FALSE(ConnectMessage::is_one(std::span(packet).first(7)));
}

// --- One side --------------------------------------------------------------------------------------------------------

TEST(RcHandshake, Message_AnOldGenerationIsIgnored) {
  RcHandshake side;
  EXPECT_TRUE(side.on_message(message_of(20, 0), kSecond).bind);
  const auto action = side.on_message(message_of(19, 0), 2 * kSecond);
  EXPECT_FALSE(action.renew || action.bind || action.answer || action.close);
}

TEST(RcHandshake, Message_ANewGenerationTakesANewQueuePair) {
  RcHandshake side;
  TimeNs now = kSecond;
  ASSERT_TRUE(side.on_message(message_of(20, 0), now).renew);
  const uint64_t first = side.message().generation;
  ASSERT_TRUE(side.on_message(message_of(20, first, State::kReady), now).close == false && side.ready());
  now += kSecond;
  const auto action = side.on_message(message_of(21, 0), now);
  EXPECT_TRUE(action.renew && action.bind && action.answer);
  EXPECT_GT(side.message().generation, first);
  EXPECT_EQ(side.message().echo, 21u);
  EXPECT_FALSE(side.ready());
}

TEST(RcHandshake, Message_FloodsOfGenerationsAndRepetitionsAreBounded) {
  RcHandshake side;
  uint64_t renewed = 0;
  uint64_t answered = 0;
  const TimeNs begin = kSecond;
  for (uint64_t i = 0; i < 100'000; ++i) {
    const auto action = side.on_message(message_of(20 + i, 5), begin + static_cast<TimeNs>(i) * kMicrosecond);
    renewed += action.renew ? 1 : 0;
    answered += action.answer ? 1 : 0;
  }
  EXPECT_LE(renewed, 51u);
  EXPECT_LE(answered, 151u);
}

TEST(RcHandshake, Close_OnlyOfWhatItIsBoundTo) {
  RcHandshake side;
  ASSERT_TRUE(side.on_message(message_of(20, 0), kSecond).bind);
  EXPECT_FALSE(side.on_message(message_of(21, 0, State::kClosed), 2 * kSecond).close);
  EXPECT_TRUE(side.running());
  EXPECT_TRUE(side.on_message(message_of(20, 0, State::kClosed), 2 * kSecond).close);
  EXPECT_FALSE(side.running());
}

TEST(RcHandshake, Due_RepeatsThenGivesUp) {
  RcHandshake side;
  side.begin(kSecond);
  uint32_t sent = 0;
  for (TimeNs now = kSecond; side.running(); now = side.next_due_ns()) sent += side.due(now) ? 1 : 0;
  EXPECT_EQ(sent, RcHandshake::kTries);
  EXPECT_EQ(side.next_due_ns(), kTimeNever);
}

// --- Two sides -------------------------------------------------------------------------------------------------------

/// Two sides and their queue pairs, over a network that loses, repeats and reorders.
class World {
 public:
  explicit World(uint64_t seed) : rng_(seed) {}

  void run(bool calm) {
    now_ += static_cast<TimeNs>(rng_.below(3 * kMillisecond));
    for (size_t side = 0; side < 2; ++side) {
      if (!sides_[side].running() && wanted_) begin(side);
      if (sides_[side].due(now_)) send(side);
    }
    if (!calm && rng_.chance(0.05)) fail(rng_.below(2));
    for (size_t count = rng_.below(4); count > 0 && !wire_.empty(); --count) deliver(calm);
  }
  [[nodiscard]] bool connected() const {
    return sides_[0].ready() && sides_[1].ready() && bound_[0] == own(1) && bound_[1] == own(0) &&
           sides_[0].connection() == sides_[1].connection();
  }

 private:
  struct Flying {
    size_t to;
    ConnectMessage message;
  };
  [[nodiscard]] uint64_t own(size_t side) const { return sides_[side].message().generation; }
  void begin(size_t side) {
    sides_[side].begin(now_);
    bound_[side] = 0;
  }
  void fail(size_t side) {
    sides_[side].end();
    bound_[side] = 0;
  }
  void send(size_t side) {
    ConnectMessage message = sides_[side].message();
    message.qp_number = 2;
    wire_.push_back({1 - side, message});
  }
  void deliver(bool calm) {
    const size_t which = rng_.below(wire_.size());
    const Flying flying = wire_[which];
    if (calm || !rng_.chance(0.3)) wire_.erase(wire_.begin() + static_cast<std::ptrdiff_t>(which));
    if (rng_.chance(calm ? 0.1 : 0.4)) return;
    const auto action = sides_[flying.to].on_message(flying.message, now_);
    if (action.close || action.renew) bound_[flying.to] = 0;
    if (action.bind) {
      ASSERT_EQ(bound_[flying.to], 0u) << "a queue pair is bound once";
      bound_[flying.to] = flying.message.generation;
    }
    if (action.answer) send(flying.to);
  }

  Rng rng_;
  TimeNs now_ = kSecond;
  bool wanted_ = true;
  std::array<RcHandshake, 2> sides_;
  std::array<uint64_t, 2> bound_{};
  std::vector<Flying> wire_;
};

TEST(RcHandshake, Agree_WhateverTheNetworkAndTheQueuePairsDid) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    World world(seed);
    for (int i = 0; i < 200; ++i) world.run(false);
    int turns = 0;
    for (; !world.connected() && turns < 20'000; ++turns) world.run(true);
    ASSERT_TRUE(world.connected()) << "seed " << seed;
    // And what is still under way does not undo it.
    for (int i = 0; i < 300; ++i) world.run(true);
    ASSERT_TRUE(world.connected()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace skua::rpc::verbs
