// What an endpoint lends: whose memory is held how long, over a transport that does as it is told.
#include "rpc/loans.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace skua::rpc {
namespace {

constexpr PeerId kPeer = 7;
constexpr size_t kListMax = 400;
using Kind = OneSidedCompletion::Kind;

/// Lends without end, and completes what it is told to.
class Wire final : public OneSided {
 public:
  uint64_t connection(PeerId /*peer*/) override { return number; }
  std::optional<Loan> lend(PeerId peer, ByteSpan bytes, uint64_t cookie) override {
    EXPECT_EQ(peer, kPeer);
    if (left == 0) return std::nullopt;
    --left;
    lent[++last] = cookie;
    return Loan{last, {reinterpret_cast<uintptr_t>(bytes.data()), static_cast<uint32_t>(last)}};
  }
  void take_back(uint64_t loan) override {
    EXPECT_EQ(lent.count(loan), 1u) << "it was not lent, or taken back before";
    ending[loan] = lent[loan];
    lent.erase(loan);
  }
  absl::StatusOr<MemoryName> open_region(MutableByteSpan, uint8_t) override { return MemoryName(); }
  void close_region(uint32_t) override {}
  bool usable(ByteSpan) override { return true; }
  size_t post(std::span<const OneSidedOperation>) override { return 0; }
  size_t reap(std::span<OneSidedCompletion>) override { return 0; }
  void sever(PeerId) override {}

  uint64_t number = 93;
  size_t left = SIZE_MAX;
  uint64_t last = 0;
  std::map<uint64_t, uint64_t> lent;    // loan -> cookie
  std::map<uint64_t, uint64_t> ending;  // the same
};

class LoansTest : public ::testing::Test {
 protected:
  LoansTest() : bytes_(1000, std::byte{1}) {}
  MessagePtr message(size_t bodies) {
    MessagePtr out = messages_.make();
    for (size_t i = 0; i < bodies; ++i) EXPECT_TRUE(out->add_body(bytes_, nullptr, nullptr));
    return out;
  }
  Announcement announce(const MessagePtr& message) {
    return loans_.announce(kPeer, {.session_index = 3, .req_num = 8}, message, messages_.make(), kListMax);
  }
  std::optional<MessageOwner> complete(Kind kind, uint64_t cookie, bool ok = true) {
    return loans_.on_completion({cookie, ok, kind});
  }
  void expect_rest() {
    EXPECT_EQ(loans_.size(), 0u);
    EXPECT_EQ(loans_.awaited(), 0u);
    EXPECT_EQ(messages_.outstanding_count(), 0u);
  }

  std::vector<std::byte> bytes_;
  MessagePool messages_{16};
  Wire wire_;
  Loans loans_{&wire_};
};

TEST_F(LoansTest, Lent_WhenAllSpansAre) {
  Announcement announced = announce(message(2));
  ASSERT_TRUE(announced);
  EXPECT_TRUE(announced.pending());
  EXPECT_FALSE(complete(Kind::kLent, wire_.lent[1]).has_value());
  EXPECT_TRUE(announced.pending());
  const std::optional<MessageOwner> owner = complete(Kind::kLent, wire_.lent[2]);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->req_num, 8u);
  EXPECT_FALSE(announced.pending() || announced.failed());
  ReadList list;
  ASSERT_TRUE(ReadList::decode(announced.list()->head(), list));
  EXPECT_EQ(list.connection, 93u);
  EXPECT_EQ(list.message_bytes(), 2000u);
  announced.reset();
  complete(Kind::kTakenBack, wire_.ending[1]);
  complete(Kind::kTakenBack, wire_.ending[2]);
  expect_rest();
}

TEST_F(LoansTest, Memory_IsHeldUntilAllIsTakenBack) {
  Announcement announced = announce(message(2));
  for (const auto& [loan, cookie] : wire_.lent) complete(Kind::kLent, cookie);
  announced.reset();
  EXPECT_EQ(wire_.ending.size(), 2u);
  EXPECT_EQ(messages_.outstanding_count(), 1u) << "the peer may be reading it still, whatever it said";
  complete(Kind::kTakenBack, wire_.ending[2]);
  EXPECT_EQ(messages_.outstanding_count(), 1u);
  complete(Kind::kTakenBack, wire_.ending[1]);
  expect_rest();
}

TEST_F(LoansTest, EndedWhilePending_NobodyIsTold) {
  Announcement announced = announce(message(1));
  announced.reset();
  ASSERT_EQ(wire_.ending.size(), 1u);
  EXPECT_FALSE(complete(Kind::kLent, wire_.ending[1]).has_value());
  EXPECT_EQ(messages_.outstanding_count(), 1u);
  complete(Kind::kTakenBack, wire_.ending[1]);
  expect_rest();
}

TEST_F(LoansTest, OneThatFails_FailsTheAnnouncement) {
  Announcement announced = announce(message(2));
  complete(Kind::kLent, wire_.lent[1], false);
  EXPECT_TRUE(announced.pending());
  EXPECT_TRUE(complete(Kind::kLent, wire_.lent[2]).has_value());
  EXPECT_TRUE(announced.failed());
  announced.reset();
  EXPECT_EQ(wire_.ending.size(), 2u);
  complete(Kind::kTakenBack, wire_.ending[1]);
  complete(Kind::kTakenBack, wire_.ending[2]);
  expect_rest();
}

TEST_F(LoansTest, NotAllSpansCanBeLent_NoneAre) {
  wire_.left = 1;
  EXPECT_FALSE(announce(message(2)));
  EXPECT_EQ(wire_.lent.size(), 0u);
  ASSERT_EQ(wire_.ending.size(), 1u);
  EXPECT_FALSE(complete(Kind::kLent, wire_.ending[1]).has_value());
  complete(Kind::kTakenBack, wire_.ending[1]);
  wire_.number = 0;
  EXPECT_FALSE(announce(message(1))) << "there is no connection";
  wire_.number = 93;
  wire_.left = SIZE_MAX;
  EXPECT_FALSE(announce(message(0))) << "a head alone";
  expect_rest();
}

TEST_F(LoansTest, Abandon_LetsGoOfEverything) {
  Announcement announced = announce(message(1));
  Announcement ended = announce(message(1));
  ended.reset();
  std::vector<PeerId> peers;
  loans_.for_each_peer([&](PeerId peer) { peers.push_back(peer); });
  EXPECT_EQ(peers.size(), 2u);
  loans_.abandon();
  EXPECT_TRUE(announced.failed());
  announced.reset();
  expect_rest();
}

}  // namespace
}  // namespace skua::rpc
