// Operations on peers' memory over a device: what works, and how what must not work fails. Runs where
// verbs_device_test.cc does.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/memory/arena.h"
#include "rpc/transport/verbs/rc_connections.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_transport.h"

namespace skua::rpc::verbs {
namespace {

using Kind = OneSidedOperation::Kind;

constexpr DurationNs kPatience = 30 * kSecond;
constexpr size_t kBytes = 1 << 20;
constexpr size_t kAround = 4096;
constexpr uint64_t kLoanCookie = 815;

EndpointIdentity identity_of(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes = {0x0c, number};
  out.incarnation = 1;
  return out;
}

/// A transport with memory that it knows.
struct End {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Arena> arena;
  MutableByteSpan memory;

  End(VerbsFabric& fabric, uint8_t number)
      : transport(fabric.make_transport(identity_of(number)).value()),
        arena(std::make_unique<Arena>(
            Arena::Options{.on_map = [this](MutableByteSpan region) { return transport->register_region(region); },
                           .on_unmap = [this](MutableByteSpan region) { transport->unregister_region(region); }})),
        memory(arena->map(kBytes).value().first(kBytes)) {
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(mix64(i + number));
  }
  RcConnections& wire() { return *dynamic_cast<VerbsTransport&>(*transport).connections(); }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uintptr_t>(memory.data()); }
  void turn() {
    std::array<RxPacket, kBurstMax> packets;
    const size_t count = transport->rx_burst(packets);
    for (size_t i = 0; i < count; ++i) transport->release(std::span(&packets[i].buffer, 1));
    std::array<LinkEvent, 4> events;
    transport->poll_links(events);
  }
};

class RcDevice : public testing::Test {
 protected:
  RcDevice() : fabric_(VerbsFabric::start({.device = "rxe0"}).value()) {
    owner_ = std::make_unique<End>(*fabric_, 1);
    user_ = std::make_unique<End>(*fabric_, 2);
    to_owner_ = user_->transport->resolve(owner_->transport->local_descriptor()).value();
    to_user_ = owner_->transport->resolve(user_->transport->local_descriptor()).value();
  }

  bool until(const std::function<bool()>& done) {
    const TimeNs limit = clock_.now_ns() + kPatience;
    while (!done()) {
      if (clock_.now_ns() > limit) return false;
      if (owner_ != nullptr) owner_->turn();
      user_->turn();
    }
    return true;
  }
  bool connect() {
    return until([&] { return user_->wire().ready(to_owner_); });
  }
  [[nodiscard]] OneSidedOperation read(uint32_t key, size_t bytes, uint64_t address) const {
    OneSidedOperation out;
    out.peer = to_owner_;
    out.local = user_->memory.first(bytes);
    out.address = address;
    out.key = key;
    out.cookie = 4711;
    return out;
  }
  /// Nothing: no completion within patience.
  std::optional<bool> outcome(const OneSidedOperation& operation) {
    EXPECT_EQ(user_->wire().post(std::span(&operation, 1)), 1u);
    return next_outcome(operation.cookie);
  }
  std::optional<bool> next_outcome(uint64_t cookie) {
    OneSidedCompletion completion;
    if (!until([&] { return user_->wire().reap(std::span(&completion, 1)) == 1; })) return std::nullopt;
    EXPECT_EQ(completion.cookie, cookie);
    return completion.ok;
  }
  /// Of the owner's loan; nothing: it does not come within patience.
  std::optional<OneSidedCompletion> next_of_loan() {
    OneSidedCompletion completion;
    if (!until([&] { return owner_->wire().reap(std::span(&completion, 1)) == 1; })) return std::nullopt;
    EXPECT_EQ(completion.cookie, kLoanCookie);
    return completion;
  }
  /// Lends it to the user, who may READ it now; nothing: there is no connection (any more).
  std::optional<Loan> lend(ByteSpan bytes) {
    if (!until([&] { return owner_->wire().ready(to_user_) && user_->wire().ready(to_owner_); })) return std::nullopt;
    const std::optional<Loan> loan = owner_->wire().lend(to_user_, bytes, kLoanCookie);
    if (!loan.has_value()) return std::nullopt;
    const std::optional<OneSidedCompletion> lent = next_of_loan();
    EXPECT_TRUE(lent.has_value() && lent->kind == OneSidedCompletion::Kind::kLent);
    if (lent.has_value() && lent->ok) return loan;
    take_back(*loan);
    return std::nullopt;
  }
  uint32_t lent_key() { return lend(owner_->memory).value().name.key; }
  void take_back(const Loan& loan) {
    owner_->wire().take_back(loan.number);
    const std::optional<OneSidedCompletion> back = next_of_loan();
    EXPECT_TRUE(back.has_value() && back->kind == OneSidedCompletion::Kind::kTakenBack);
  }
  /// READs work (again), with the right bytes, and nothing of what came before is left.
  void expect_works() {
    // An end that was just told of, or will be by this, is followed by a new connection.
    std::optional<bool> ok = false;
    for (int attempt = 0; attempt < 3 && ok == false; ++attempt) {
      ASSERT_TRUE(connect());
      const std::optional<Loan> loan = lend(owner_->memory.first(10'000));
      if (!loan.has_value()) continue;
      ok = outcome(read(loan->name.key, 10'000, owner_->address()));
      take_back(*loan);
    }
    ASSERT_EQ(ok, true);
    EXPECT_TRUE(std::ranges::equal(user_->memory.first(10'000), owner_->memory.first(10'000)));
    EXPECT_EQ(user_->wire().operations_in_flight(), 0u);
    EXPECT_LE(user_->wire().queue_pairs(), 1u);
  }

  const SteadyClock clock_;
  const std::unique_ptr<VerbsFabric> fabric_;
  std::unique_ptr<End> owner_;
  std::unique_ptr<End> user_;
  PeerId to_owner_ = kNoPeer;
  PeerId to_user_ = kNoPeer;
};

TEST_F(RcDevice, Connect_BothAtOnceIsOneConnection) {
  ASSERT_TRUE(until([&] {
    const bool there = owner_->wire().ready(to_user_);
    return user_->wire().ready(to_owner_) && there;
  }));
  EXPECT_EQ(user_->wire().queue_pairs(), 1u);
  EXPECT_EQ(owner_->wire().queue_pairs(), 1u);
  expect_works();
}

TEST_F(RcDevice, Operations_OfAllKindsOnAnOpenedRegion) {
  ASSERT_TRUE(connect());
  const MutableByteSpan region = owner_->memory.subspan(kAround, 4096);
  const uint32_t key = owner_->wire().open_region(region, memory_rights::kAll).value().key;
  const uint64_t there = reinterpret_cast<uintptr_t>(region.data());
  OneSidedOperation operation = read(key, 4096, there);
  EXPECT_EQ(outcome(operation), true);
  EXPECT_TRUE(std::ranges::equal(user_->memory.first(4096), region));
  operation.kind = Kind::kWrite;
  store_le(user_->memory.data(), uint64_t{41});
  EXPECT_EQ(outcome(operation), true);
  EXPECT_EQ(load_le<uint64_t>(region.data()), 41u);
  operation.kind = Kind::kFetchAdd;
  operation.local = user_->memory.first(8);
  operation.operand = 1;
  EXPECT_EQ(outcome(operation), true);
  EXPECT_EQ(load_le<uint64_t>(user_->memory.data()), 41u);
  EXPECT_EQ(load_le<uint64_t>(region.data()), 42u);
  operation.kind = Kind::kCompareSwap;
  operation.expected = 42;
  operation.operand = 7;
  EXPECT_EQ(outcome(operation), true);
  EXPECT_EQ(load_le<uint64_t>(region.data()), 7u);
  EXPECT_EQ(outcome(operation), true) << "it is not what is expected any more";
  EXPECT_EQ(load_le<uint64_t>(region.data()), 7u);
  // One byte before the region, one behind it, and not at all any more.
  EXPECT_EQ(outcome(read(key, 100, there - 1)), false);
  ASSERT_TRUE(connect());
  EXPECT_EQ(outcome(read(key, 4097, there)), false);
  ASSERT_TRUE(connect());
  owner_->wire().close_region(key);
  EXPECT_EQ(outcome(read(key, 100, there)), false);
  expect_works();
}

TEST_F(RcDevice, Operations_ManyCompleteAndSleepersWake) {
  ASSERT_TRUE(connect());
  const uint32_t key = lent_key();
  size_t posted = 0;
  size_t done = 0;
  while (done < 500) {
    while (posted < 500 && posted - done < 100) {
      const OneSidedOperation operation = read(key, 5000, owner_->address());
      if (user_->wire().post(std::span(&operation, 1)) == 0) break;
      ++posted;
    }
    std::array<OneSidedCompletion, kBurstMax> completions;
    const size_t count = user_->wire().reap(completions);
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(completions[i].ok);
    done += count;
    if (count == 0) user_->transport->wait(3600 * kSecond);
  }
  EXPECT_EQ(user_->wire().operations_in_flight(), 0u);
}

/// Writes with notices from the user's memory to the same places of the owner's.
class RcNotices : public RcDevice {
 protected:
  static constexpr size_t kPlace = 1000;
  static constexpr size_t kEntry = 16;
  static constexpr size_t kEntriesAt = 500'000;

  void SetUp() override {
    ASSERT_TRUE(until([&] { return owner_->wire().ready(to_user_) && user_->wire().ready(to_owner_); }));
    key_ = owner_->wire().open_region(owner_->memory, memory_rights::kRead | memory_rights::kWrite).value().key;
  }
  void post(uint32_t number) {
    OneSidedOperation out;
    out.kind = Kind::kWriteWithNotice;
    out.peer = to_owner_;
    out.local = user_->memory.subspan(number * kPlace, kPlace);
    out.address = owner_->address() + number * kPlace;
    out.key = out.entry_key = key_;
    out.entry = user_->memory.subspan(kEntriesAt + number * kEntry, kEntry);
    out.entry_address = owner_->address() + kEntriesAt + number * kEntry;
    out.number = number;
    ASSERT_EQ(user_->wire().post(std::span(&out, 1)), 1u);
  }
  bool is_there(uint32_t number) const {
    const auto same = [&](size_t at, size_t bytes) {
      return std::ranges::equal(owner_->memory.subspan(at, bytes), user_->memory.subspan(at, bytes));
    };
    return same(number * kPlace, kPlace) && same(kEntriesAt + number * kEntry, kEntry);
  }
  /// The next notice, or nothing within patience.
  std::optional<uint32_t> next_notice() {
    OneSidedCompletion completion;
    if (!until([&] { return owner_->wire().reap(std::span(&completion, 1)) == 1; })) return std::nullopt;
    EXPECT_EQ(completion.kind, OneSidedCompletion::Kind::kNotice);
    EXPECT_EQ(completion.peer, to_user_);
    return static_cast<uint32_t>(completion.cookie);
  }

  uint32_t key_ = 0;
};

TEST_F(RcNotices, ComeInOrderBehindTheirBytesAlsoWhereThereIsRoomForFew) {
  EXPECT_FALSE(owner_->wire().reserve_notices(to_user_, RcQueue::kNotices + 1));
  ASSERT_TRUE(owner_->wire().reserve_notices(to_user_, 4));
  EXPECT_FALSE(owner_->wire().reserve_notices(to_user_, RcQueue::kNotices));
  constexpr uint32_t kCount = 24;
  for (uint32_t i = 0; i < kCount; ++i) post(i);
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(next_notice(), i);
    EXPECT_TRUE(is_there(i)) << i;
  }
  for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(next_outcome(0), true);
}

TEST_F(RcNotices, EndSleep) {
  ASSERT_TRUE(owner_->wire().reserve_notices(to_user_, 4));
  owner_->turn();
  post(7);
  OneSidedCompletion completion;
  while (owner_->wire().reap(std::span(&completion, 1)) == 0) owner_->transport->wait(3600 * kSecond);
  EXPECT_EQ(completion.cookie, 7u);
}

TEST_F(RcNotices, RoomIsThereAgainAfterAConnectionFailed) {
  ASSERT_TRUE(owner_->wire().reserve_notices(to_user_, 4));
  for (uint32_t turn = 0; turn < 3; ++turn) {
    owner_->wire().fail_for_test(to_user_);
    ASSERT_TRUE(until([&] { return !user_->wire().ready(to_owner_); }));
    ASSERT_TRUE(until([&] { return owner_->wire().ready(to_user_) && user_->wire().ready(to_owner_); }));
    for (uint32_t i = 0; i < 8; ++i) post(8 * turn + i);
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(next_notice(), 8 * turn + i);
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(next_outcome(0), true);
  }
  owner_->wire().release_notices(to_user_, 4);
  EXPECT_TRUE(owner_->wire().reserve_notices(to_user_, RcQueue::kNotices));
}

TEST_F(RcDevice, Hostile_WhatIsOnlySentInPacketsIsNotReadable) {
  expect_works();
  const uint32_t key = lent_key();
  // A key that may READ may not WRITE.
  OneSidedOperation operation = read(key, 100, owner_->address());
  operation.kind = Kind::kWrite;
  EXPECT_EQ(outcome(operation), false);
  ASSERT_TRUE(connect());
  // Outside of every registered region, and with the keys around the right one: those of packets' memory among them.
  const std::vector<std::byte> secret(4096, std::byte{1});
  EXPECT_EQ(outcome(read(key, 100, reinterpret_cast<uintptr_t>(secret.data()))), false);
  for (uint32_t index = 0; index < 8; ++index) {
    ASSERT_TRUE(connect());
    if (index << 8 == (key & ~0xffu)) continue;
    EXPECT_EQ(outcome(read(index << 8, 100, owner_->address())), false);
  }
  EXPECT_GE(user_->wire().stats().operations_failed, 8u);
  expect_works();
}

TEST_F(RcDevice, Unregister_NothingIsLentOfIt) {
  expect_works();
  const Loan loan = lend(owner_->memory).value();
  take_back(loan);
  const uint64_t address = owner_->address();
  owner_->arena.reset();
  EXPECT_EQ(outcome(read(loan.name.key, 100, address)), false);
  EXPECT_FALSE(lend(owner_->memory).has_value());
}

TEST_F(RcDevice, Loan_EndsWhenItIsTakenBack) {
  ASSERT_TRUE(connect());
  const Loan loan = lend(owner_->memory.subspan(kAround, 1000)).value();
  EXPECT_EQ(loan.name.address, owner_->address() + kAround);
  EXPECT_EQ(outcome(read(loan.name.key, 1000, loan.name.address)), true);
  take_back(loan);
  EXPECT_EQ(outcome(read(loan.name.key, 1000, loan.name.address)), false);
  // Windows are used again, under other keys.
  const Loan next = lend(owner_->memory.subspan(kAround, 1000)).value();
  EXPECT_NE(next.name.key, loan.name.key);
  EXPECT_EQ(outcome(read(next.name.key, 1000, next.name.address)), true);
  EXPECT_EQ(outcome(read(loan.name.key, 1000, loan.name.address)), false);
}

TEST_F(RcDevice, Loan_IsItsPeersAlone) {
  ASSERT_TRUE(connect());
  const Loan loan = lend(owner_->memory).value();
  End stranger(*fabric_, 3);
  ASSERT_TRUE(owner_->transport->resolve(stranger.transport->local_descriptor()).ok());
  const PeerId owner_for_stranger = stranger.transport->resolve(owner_->transport->local_descriptor()).value();
  ASSERT_TRUE(until([&] {
    stranger.turn();
    return stranger.wire().ready(owner_for_stranger);
  }));
  OneSidedOperation operation = read(loan.name.key, 1000, loan.name.address);
  operation.peer = owner_for_stranger;
  operation.local = stranger.memory.first(1000);
  ASSERT_EQ(stranger.wire().post(std::span(&operation, 1)), 1u);
  OneSidedCompletion completion;
  ASSERT_TRUE(until([&] {
    stranger.turn();
    return stranger.wire().reap(std::span(&completion, 1)) == 1;
  }));
  EXPECT_FALSE(completion.ok);
  EXPECT_EQ(outcome(read(loan.name.key, 1000, loan.name.address)), true) << "the peer reads it all the same";
}

TEST_F(RcDevice, Loan_OfAConnectionThatEnds) {
  ASSERT_TRUE(connect());
  const Loan loan = lend(owner_->memory).value();
  owner_->wire().sever(to_user_);
  EXPECT_FALSE(owner_->wire().lend(to_user_, owner_->memory, kLoanCookie).has_value());
  take_back(loan);
  // Taken back before it was lent, and before its connection ended: both are told.
  ASSERT_TRUE(until([&] { return owner_->wire().ready(to_user_); }));
  const std::optional<Loan> hasty = owner_->wire().lend(to_user_, owner_->memory, kLoanCookie);
  ASSERT_TRUE(hasty.has_value());
  owner_->wire().take_back(hasty->number);
  owner_->wire().sever(to_user_);
  EXPECT_EQ(next_of_loan()->kind, OneSidedCompletion::Kind::kLent);
  EXPECT_EQ(next_of_loan()->kind, OneSidedCompletion::Kind::kTakenBack);
  expect_works();
}

TEST_F(RcDevice, Loan_MoreThanOnePeerGets) {
  ASSERT_TRUE(connect());
  ASSERT_TRUE(until([&] { return owner_->wire().ready(to_user_); }));
  std::vector<uint64_t> loans;
  size_t lent = 0;
  std::array<OneSidedCompletion, kBurstMax> completions;
  for (bool more = true; more || lent < loans.size();) {
    const std::optional<Loan> loan = owner_->wire().lend(to_user_, owner_->memory, kLoanCookie);
    if (loan.has_value()) loans.push_back(loan->number);
    const size_t count = owner_->wire().reap(completions);
    lent += count;
    // No room at the device, or no window: the latter when nothing is under way.
    more = loan.has_value() || lent < loans.size();
  }
  EXPECT_EQ(loans.size(), RcConnections::kWindowsPerPeerMax);
  for (const uint64_t loan : loans) owner_->wire().take_back(loan);
  size_t back = 0;
  ASSERT_TRUE(until([&] { return (back += owner_->wire().reap(completions)) == loans.size(); }));
  expect_works();
}

TEST_F(RcDevice, Sever_OwnersSideEndsWhatIsUnderWay) {
  expect_works();
  const uint32_t key = lent_key();
  std::vector<OneSidedOperation> many(20, read(key, kBytes, owner_->address()));
  ASSERT_EQ(user_->wire().post(many), many.size());
  owner_->wire().sever(to_user_);
  EXPECT_EQ(owner_->wire().stats().severed, 1u);
  EXPECT_EQ(owner_->wire().queue_pairs(), 0u);
  // The user does not know yet, and READs on.
  ASSERT_TRUE(user_->wire().ready(to_owner_));
  const OneSidedOperation late = read(key, 100, owner_->address());
  ASSERT_EQ(user_->wire().post(std::span(&late, 1)), 1u);
  std::optional<bool> ok;
  for (size_t i = 0; i < many.size() + 1; ++i) {
    ok = next_outcome(4711);
    ASSERT_TRUE(ok.has_value());
  }
  EXPECT_EQ(ok, false) << "the last of them";
  expect_works();
}

TEST_F(RcDevice, Sever_WhatWasMeantForOneConnectionNeverRunsOnAnother) {
  expect_works();
  const uint32_t key = lent_key();
  ASSERT_TRUE(until([&] { return owner_->wire().ready(to_user_) && user_->wire().ready(to_owner_); }));
  OneSidedOperation announced = read(key, 100, owner_->address());
  announced.connection = owner_->wire().connection(to_user_);
  EXPECT_EQ(user_->wire().connection(to_owner_), announced.connection) << "both ends have the same number";
  EXPECT_EQ(outcome(announced), true);
  owner_->wire().sever(to_user_);
  // With or without being told, once the old one is gone and the next one stands.
  ASSERT_TRUE(until([&] {
    const uint64_t now = user_->wire().connection(to_owner_);
    return now != 0 && now != announced.connection;
  }));
  std::fill(user_->memory.begin(), user_->memory.end(), std::byte{9});
  EXPECT_EQ(outcome(announced), false);
  EXPECT_EQ(user_->memory[0], std::byte{9});
  EXPECT_NE(user_->wire().connection(to_owner_), 0u) << "it was not even posted, so nothing broke";
  announced.key = lent_key();
  announced.connection = user_->wire().connection(to_owner_);
  EXPECT_EQ(outcome(announced), true);
}

TEST_F(RcDevice, Sever_UsersSideCompletesAtOnce) {
  expect_works();
  const uint32_t key = lent_key();
  std::vector<OneSidedOperation> many(20, read(key, kBytes, owner_->address()));
  ASSERT_EQ(user_->wire().post(many), many.size());
  user_->wire().sever(to_owner_);
  EXPECT_EQ(user_->wire().operations_in_flight(), 0u);
  std::array<OneSidedCompletion, kBurstMax> completions;
  EXPECT_EQ(user_->wire().reap(completions), many.size());
  // Its memory is its own again.
  std::fill(user_->memory.begin(), user_->memory.end(), std::byte{9});
  for (int i = 0; i < 1000; ++i) owner_->turn();
  EXPECT_EQ(std::ranges::count(user_->memory, std::byte{9}), static_cast<std::ptrdiff_t>(kBytes));
  expect_works();
}

TEST_F(RcDevice, Peer_DestroyedWhileReadsAreUnderWay) {
  expect_works();
  const uint32_t key = lent_key();
  const uint64_t address = owner_->address();
  std::vector<OneSidedOperation> many(20, read(key, kBytes, address));
  ASSERT_EQ(user_->wire().post(many), many.size());
  owner_.reset();
  ASSERT_EQ(user_->wire().post(std::span(many).first(1)), 1u);
  size_t failed = 0;
  for (size_t i = 0; i < many.size() + 1; ++i) {
    const std::optional<bool> ok = next_outcome(4711);
    ASSERT_TRUE(ok.has_value());
    if (!*ok) ++failed;
  }
  EXPECT_GT(failed, 0u);
  EXPECT_EQ(user_->wire().stats().operations_failed, failed);
  EXPECT_EQ(user_->wire().operations_in_flight(), 0u);
  EXPECT_EQ(user_->wire().queue_pairs(), 0u);
  EXPECT_FALSE(user_->wire().ready(to_owner_));
  EXPECT_EQ(outcome(read(key, 100, address)), false) << "taken, and failed";
}

TEST_F(RcDevice, Fault_AFailedQueuePairIsReplaced) {
  for (int turn = 0; turn < 5; ++turn) {
    expect_works();
    const uint64_t before = user_->wire().stats().broken + owner_->wire().stats().broken;
    (turn % 2 == 0 ? user_->wire() : owner_->wire()).fail_for_test(turn % 2 == 0 ? to_owner_ : to_user_);
    // Nobody uses it: it is found all the same, and the other side hears of it.
    ASSERT_TRUE(until([&] { return user_->wire().queue_pairs() + owner_->wire().queue_pairs() == 0; }));
    EXPECT_GT(user_->wire().stats().broken + owner_->wire().stats().broken, before);
  }
  expect_works();
}

}  // namespace
}  // namespace skua::rpc::verbs
