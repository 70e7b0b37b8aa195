// MemoryOperations and OneSidedLoop, over a device that does as it is told.
#include "rpc/memory_operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "rpc/message_reads.h"
#include "rpc/one_sided_loop.h"
#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

class ObedientDevice final : public OneSided {
 public:
  bool connected = false;
  size_t room = SIZE_MAX;
  std::vector<OneSidedOperation> posted;
  std::deque<OneSidedCompletion> completions;
  std::vector<PeerId> severed;

  uint64_t connection(PeerId /*peer*/) override { return connected ? 93 : 0; }
  std::optional<Loan> lend(PeerId, ByteSpan, uint64_t) override { return std::nullopt; }
  void take_back(uint64_t) override {}
  absl::StatusOr<MemoryName> open_region(MutableByteSpan, uint8_t) override { return MemoryName(); }
  void close_region(uint32_t) override {}
  bool reserve_notices(PeerId, uint32_t) override { return connected; }
  bool usable(ByteSpan) override { return true; }
  size_t post(std::span<const OneSidedOperation> operations) override {
    const size_t count = std::min(operations.size(), room);
    posted.insert(posted.end(), operations.begin(), operations.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }
  size_t reap(std::span<OneSidedCompletion> out) override {
    size_t count = 0;
    for (; count < out.size() && !completions.empty(); completions.pop_front()) out[count++] = completions.front();
    return count;
  }
  void sever(PeerId peer) override {
    severed.push_back(peer);
    for (const OneSidedOperation& one : std::exchange(posted, {})) completions.push_back({one.cookie, false});
  }
  void complete(bool ok) {
    for (const OneSidedOperation& one : std::exchange(posted, {})) completions.push_back({one.cookie, ok});
  }
};

/// An operation that remembers how it ended.
struct Remembered : MemoryAccess::Operation {
  Remembered() {
    complete = [](MemoryAccess::Operation& self, MemoryAccess::Result result) {
      static_cast<Remembered&>(self).results.push_back(result);
    };
  }
  std::vector<MemoryAccess::Result> results;
};

class MemoryOperationsTest : public ::testing::Test {
 protected:
  using Result = MemoryAccess::Result;
  using Results = std::vector<Result>;

  MemoryOperationsTest() : wire(device) {
    operation.session = session.handle();
    operation.life = operations.life_of(session.handle());
    operation.deadline_ns = parts.context.now_ns + kSecond;
    operation.patient = true;
  }

  struct Wire : testing::ObedientWire {
    explicit Wire(ObedientDevice& device) { one_sided_ = &device; }
  };
  ObedientDevice device;
  Wire wire;
  testing::SessionParts parts{wire};
  SessionEntry& session = parts.dialled(1);
  MessageReads reads{parts.context, parts.memory};
  MemoryOperations operations{parts.context, parts.memory};
  OneSidedLoop loop{parts.context, reads, operations};
  Remembered operation;
};

TEST_F(MemoryOperationsTest, WaitsForAConnection_ThenRuns) {
  EXPECT_TRUE(loop.is_idle());
  operations.start(operation);
  EXPECT_FALSE(loop.is_idle());
  EXPECT_EQ(loop.run(), 0u);
  device.connected = true;
  EXPECT_EQ(loop.run(), 1u);
  ASSERT_EQ(device.posted.size(), 1u);
  EXPECT_EQ(device.posted[0].peer, 1u);
  EXPECT_EQ(operation.results, Results());
  device.complete(true);
  EXPECT_EQ(loop.run(), 1u);
  EXPECT_EQ(operation.results, Results({Result::kDone}));
  EXPECT_TRUE(loop.is_idle());
}

TEST_F(MemoryOperationsTest, WithAConnection_RunsAtOnce) {
  device.connected = true;
  operations.start(operation);
  EXPECT_EQ(device.posted.size(), 1u);
  device.complete(false);
  loop.run();
  EXPECT_EQ(operation.results, Results({Result::kFailed}));
}

TEST_F(MemoryOperationsTest, ThePatientWaitUntilTheirDeadline) {
  Remembered hasty;
  hasty.session = operation.session;
  hasty.life = operation.life;
  hasty.deadline_ns = operation.deadline_ns;
  operations.start(operation);
  operations.start(hasty);
  loop.run();
  EXPECT_EQ(hasty.results, Results({Result::kNotRun})) << "no connection stands";
  EXPECT_EQ(operation.results, Results());
  EXPECT_LE(operations.next_ns(), parts.context.now_ns + kSecond) << "the loop has to look";
  parts.pass(kSecond);
  loop.run();
  EXPECT_EQ(operation.results, Results({Result::kNotRun}));
  EXPECT_EQ(operations.next_ns(), kTimeNever);
}

TEST_F(MemoryOperationsTest, WithoutRoom_EvenTheHastyWait) {
  device.connected = true;
  device.room = 0;
  operation.patient = false;
  operations.start(operation);
  loop.run();
  EXPECT_EQ(operation.results, Results());
  device.room = 1;
  EXPECT_EQ(loop.run(), 1u);
  EXPECT_EQ(device.posted.size(), 1u);
  device.complete(true);
  loop.run();
}

TEST_F(MemoryOperationsTest, WhatWasGrantedEndsWithTheSessionsLife) {
  operations.start(operation);
  parts.lives.break_off(session, absl::UnavailableError("test"));
  EXPECT_NE(operations.life_of(session.handle()), operation.life);
  device.connected = true;
  loop.run();
  EXPECT_EQ(operation.results, Results({Result::kNotRun}));
  EXPECT_TRUE(device.posted.empty());
  EXPECT_EQ(operations.life_of({77, 1}), 0u);
}

TEST_F(MemoryOperationsTest, AConnectionAloneMayBeWanted) {
  operation.only_connect = true;
  operations.start(operation);
  loop.run();
  EXPECT_EQ(operation.results, Results());
  device.connected = true;
  loop.run();
  EXPECT_EQ(operation.results, Results({Result::kDone}));
  EXPECT_TRUE(device.posted.empty());
}

TEST_F(MemoryOperationsTest, NoticesGoToTheirObserver) {
  std::vector<std::pair<PeerId, uint32_t>> notices;
  operations.on_notice([&](PeerId from, uint32_t number) { notices.emplace_back(from, number); });
  device.completions.push_back({5, true, OneSidedCompletion::Kind::kNotice, 1});
  EXPECT_EQ(loop.run(), 0u) << "nobody reserved any";
  EXPECT_EQ(operations.reserve_notices(session.handle(), 2), kNoPeer) << "no connection stands";
  device.connected = true;
  EXPECT_EQ(operations.reserve_notices(session.handle(), 2), 1u);
  EXPECT_EQ(loop.run(), 1u);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0], std::make_pair(PeerId{1}, 5u));
  EXPECT_TRUE(loop.is_idle()) << "an endpoint may sleep while notices may come";
  operations.release_notices(1, 2);
}

TEST_F(MemoryOperationsTest, TheTaskRunsOnce) {
  int first = 0;
  int second = 0;
  operations.call_at(100, [&] { ++first; });
  operations.call_at(200, [&] { ++second; });
  EXPECT_EQ(operations.task_due_ns(), 200);
  EXPECT_EQ(operations.next_ns(), 200);
  operations.run_task();
  operations.run_task();
  EXPECT_EQ(first, 0) << "it was replaced";
  EXPECT_EQ(second, 1);
  EXPECT_EQ(operations.task_due_ns(), kTimeNever);
}

TEST_F(MemoryOperationsTest, TheEndpointsEndLeavesNothingInFlight) {
  device.connected = true;
  operations.start(operation);
  Remembered waiting;
  waiting.session = operation.session;
  waiting.life = operation.life;
  device.room = 0;
  operations.start(waiting);
  loop.end();
  EXPECT_EQ(device.severed, std::vector<PeerId>({1}));
  EXPECT_EQ(operation.results, Results({Result::kFailed}));
  EXPECT_EQ(waiting.results, Results({Result::kNotRun}));
  EXPECT_TRUE(loop.is_idle());
}

}  // namespace
}  // namespace skua::rpc
