// The race rule: single decisions, and a model of two endpoints whose messages take any order.
#include "rpc/transport/tcp/race.h"

#include <deque>
#include <optional>

#include "gtest/gtest.h"
#include "rpc/base/rng.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

Hello hello_of(uint8_t id, uint64_t incarnation, uint64_t dial_number) {
  Hello hello;
  hello.sender.uuid = make_uuid(id);
  hello.sender.incarnation = incarnation;
  hello.dial_number = dial_number;
  return hello;
}

TEST(DecideRace, NothingHeld_Accepts) {
  EXPECT_EQ(decide_race(hello_of(2, 1, 1), make_uuid(1), {}), Verdict::kAccept);
  EXPECT_EQ(decide_race(hello_of(1, 1, 1), make_uuid(2), {}), Verdict::kAccept);
}

TEST(DecideRace, BothDialled_HigherUuidWins) {
  const LinkView dialled = {.dial = DialState::kHelloSent};
  EXPECT_EQ(decide_race(hello_of(2, 1, 1), make_uuid(1), dialled), Verdict::kAccept);
  EXPECT_EQ(decide_race(hello_of(1, 1, 1), make_uuid(2), dialled), Verdict::kRefuseRace);
}

TEST(DecideRace, OwnDialNotThrough_Accepts) {
  const LinkView connecting = {.dial = DialState::kConnecting};
  EXPECT_EQ(decide_race(hello_of(1, 1, 1), make_uuid(2), connecting), Verdict::kAccept);
}

TEST(DecideRace, LinkStands_OnlyANewerOneReplaces) {
  const LinkView link = {.has_link = true, .link_incarnation = 5, .link_dial_number = 9};
  EXPECT_EQ(decide_race(hello_of(1, 5, 8), make_uuid(2), link), Verdict::kRefuseStale);
  EXPECT_EQ(decide_race(hello_of(1, 5, 9), make_uuid(2), link), Verdict::kRefuseStale);
  EXPECT_EQ(decide_race(hello_of(1, 5, 10), make_uuid(2), link), Verdict::kReplace);
  EXPECT_EQ(decide_race(hello_of(1, 6, 1), make_uuid(2), link), Verdict::kReplace);
}

// --- A model. Two sides, connections as pairs of message queues; a random scheduler delivers.

struct Side;

struct Wire {
  int dialler = 0;
  uint64_t dial_number = 0;
  bool hello_queued = false;
  std::optional<HelloReply> reply;
  /// Closed by the side with that index.
  std::array<bool, 2> closed = {false, false};
};

struct Side {
  int index = 0;
  Uuid uuid;
  uint64_t dials = 0;
  Wire* dial = nullptr;
  bool hello_sent = false;
  Wire* link = nullptr;
  uint64_t link_dial_number = 0;
};

class RaceModel {
 public:
  explicit RaceModel(uint64_t seed) : rng_(seed) {
    for (int i = 0; i < 2; ++i) {
      sides_[static_cast<size_t>(i)].index = i;
      sides_[static_cast<size_t>(i)].uuid = make_uuid(static_cast<uint8_t>(i + 1));
    }
  }

  /// Dials, breaks and delivers at random, then delivers and dials until both rest.
  void run() {
    for (int step = 0; step < 60; ++step) {
      Side& side = sides_[rng_.below(2)];
      if (rng_.chance(0.2)) dial(side);
      if (rng_.chance(0.05) && side.link != nullptr) break_link(side);
      deliver_one();
    }
    for (int step = 0; step < 4000; ++step) {
      if (step % 100 == 0) {
        for (Side& side : sides_) dial(side);
      }
      deliver_one();
    }
  }

  void expect_one_link() {
    ASSERT_NE(sides_[0].link, nullptr);
    EXPECT_EQ(sides_[0].link, sides_[1].link);
    EXPECT_FALSE(sides_[0].link->closed[0] || sides_[0].link->closed[1]);
  }

 private:
  Side& other(const Side& side) { return sides_[static_cast<size_t>(1 - side.index)]; }

  void dial(Side& side) {
    if (side.dial != nullptr || side.link != nullptr) return;
    wires_.emplace_back();
    wires_.back().dialler = side.index;
    wires_.back().dial_number = ++side.dials;
    side.dial = &wires_.back();
    side.hello_sent = false;
  }

  void close(Side& side, Wire& wire) { wire.closed[static_cast<size_t>(side.index)] = true; }

  void break_link(Side& side) {
    close(side, *side.link);
    side.link = nullptr;
  }

  /// One random thing that the network or a side could do next.
  void deliver_one() {
    if (wires_.empty()) return;
    Wire& wire = wires_[rng_.below(wires_.size())];
    Side& dialler = sides_[static_cast<size_t>(wire.dialler)];
    Side& listener = other(dialler);
    switch (rng_.below(4)) {
      case 0:  // TCP stands: the hello goes out
        if (dialler.dial == &wire && !dialler.hello_sent) {
          dialler.hello_sent = true;
          wire.hello_queued = true;
        }
        break;
      case 1: on_hello(listener, wire); break;
      case 2: on_reply(dialler, wire); break;
      case 3: on_close(dialler, wire), on_close(listener, wire); break;
      default: break;
    }
  }

  void on_hello(Side& side, Wire& wire) {
    if (!wire.hello_queued) return;
    wire.hello_queued = false;
    LinkView view;
    if (side.dial != nullptr) {
      view.dial = side.hello_sent ? DialState::kHelloSent : DialState::kConnecting;
    }
    view.has_link = side.link != nullptr;
    view.link_incarnation = 1;
    view.link_dial_number = side.link_dial_number;
    Hello hello;
    hello.sender = {.uuid = other(side).uuid, .incarnation = 1, .cluster_id = {}};
    hello.dial_number = wire.dial_number;
    HelloReply reply;
    reply.last_dial_number = side.dials;
    switch (decide_race(hello, side.uuid, view)) {
      case Verdict::kRefuseRace: reply.code = HelloCode::kRace; break;
      case Verdict::kRefuseStale: reply.code = HelloCode::kStale; break;
      case Verdict::kReplace: break_link(side); [[fallthrough]];
      case Verdict::kAccept:
        if (side.dial != nullptr) close(side, *side.dial);
        side.dial = nullptr;
        side.link = &wire;
        side.link_dial_number = wire.dial_number;
    }
    wire.reply = reply;
  }

  void on_reply(Side& side, Wire& wire) {
    if (!wire.reply.has_value() || side.dial != &wire) return;
    side.dial = nullptr;
    if (wire.reply->code == HelloCode::kAccepted) {
      ASSERT_EQ(side.link, nullptr);
      side.link = &wire;
      side.link_dial_number = wire.reply->last_dial_number;
    }
  }

  void on_close(Side& side, Wire& wire) {
    if (!wire.closed[static_cast<size_t>(1 - side.index)]) return;
    // What was sent before the close is read before it.
    if (wire.dialler != side.index && wire.hello_queued) on_hello(side, wire);
    if (wire.dialler == side.index && wire.reply.has_value()) on_reply(side, wire);
    if (side.link == &wire) side.link = nullptr;
    if (side.dial == &wire) side.dial = nullptr;
  }

  Rng rng_;
  std::array<Side, 2> sides_;
  std::deque<Wire> wires_;
};

TEST(DecideRace, AnyOrderOfMessages_EndsWithOneLink) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    RaceModel model(seed);
    model.run();
    model.expect_one_link();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace skua::rpc::tcp
