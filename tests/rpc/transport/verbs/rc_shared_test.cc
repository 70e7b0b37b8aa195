// Queue pairs that endpoints of two processes share: two fabrics on one device. Runs where verbs_device_test.cc does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/memory/arena.h"
#include "rpc/transport/verbs/address_resolver.h"
#include "rpc/transport/verbs/device.h"
#include "rpc/transport/verbs/rc_connections.h"
#include "rpc/transport/verbs/rc_hub.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_transport.h"

namespace skua::rpc::verbs {
namespace {

using Kind = OneSidedCompletion::Kind;

constexpr DurationNs kPatience = 30 * kSecond;
constexpr size_t kBytes = 256 << 10;
constexpr uint64_t kReadCookie = 4711;
constexpr uint64_t kLoanCookie = 815;

EndpointIdentity identity_of(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes = {0x5a, number};
  out.incarnation = 1;
  return out;
}

/// An endpoint's transport with memory that it knows.
struct End {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Arena> arena;
  MutableByteSpan memory;

  End(std::unique_ptr<Transport> made, uint8_t number)
      : transport(std::move(made)),
        arena(std::make_unique<Arena>(
            Arena::Options{.on_map = [this](MutableByteSpan region) { return transport->register_region(region); },
                           .on_unmap = [this](MutableByteSpan region) { transport->unregister_region(region); }})),
        memory(arena->map(kBytes).value().first(kBytes)) {
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(mix64(i + number));
  }
  End(VerbsFabric& fabric, uint8_t number) : End(fabric.make_transport(identity_of(number)).value(), number) {}

  RcConnections& wire() { return *dynamic_cast<VerbsTransport&>(*transport).connections(); }
  PeerId knows(End& other) { return transport->resolve(other.transport->local_descriptor()).value(); }
  void turn() {
    std::array<RxPacket, kBurstMax> packets;
    const size_t count = transport->rx_burst(packets);
    for (size_t i = 0; i < count; ++i) transport->release(std::span(&packets[i].buffer, 1));
    std::array<LinkEvent, 4> events;
    transport->poll_links(events);
  }
};

/// Two ends that know each other: `owner` lends, `user` reads.
struct Association {
  End& owner;
  End& user;
  PeerId to_user;
  PeerId to_owner;

  Association(End& the_owner, End& the_user)
      : owner(the_owner), user(the_user), to_user(owner.knows(user)), to_owner(user.knows(owner)) {}

  /// Both have it; 0: not yet.
  uint64_t number() {
    const uint64_t here = owner.wire().connection(to_user);
    const uint64_t there = user.wire().connection(to_owner);
    return here == there ? here : 0;
  }
  OneSidedOperation read(const Loan& loan, size_t bytes) {
    OneSidedOperation out;
    out.peer = to_owner;
    out.connection = user.wire().connection(to_owner);
    out.local = user.memory.first(bytes);
    out.address = loan.name.address;
    out.key = loan.name.key;
    out.cookie = kReadCookie;
    return out;
  }
};

class RcShared : public testing::Test {
 protected:
  RcShared()
      : here_(VerbsFabric::start({.device = "rxe0"}).value()), there_(VerbsFabric::start({.device = "rxe0"}).value()) {
    for (uint8_t i = 0; i < 2; ++i) {
      owners_.push_back(std::make_unique<End>(*here_, i + 1));
      users_.push_back(std::make_unique<End>(*there_, i + 11));
    }
    for (const auto& owner : owners_) {
      for (const auto& user : users_) associations_.emplace_back(*owner, *user);
    }
  }
  bool until(const std::function<bool()>& done) {
    const TimeNs limit = clock_.now_ns() + kPatience;
    while (!done()) {
      if (clock_.now_ns() > limit) return false;
      for (const auto& end : owners_) end->turn();
      for (const auto& end : users_) end->turn();
    }
    return true;
  }
  bool join(Association& one) {
    return until([&] { return one.number() != 0; });
  }
  bool join_all() {
    return std::ranges::all_of(associations_, [this](Association& one) { return join(one); });
  }
  const RcHub& hub_here() { return *owners_[0]->wire().hub(); }
  const RcHub& hub_there() { return *users_[0]->wire().hub(); }

  /// The next completion at that end that is of the kind.
  std::optional<bool> next(End& end, Kind kind) {
    OneSidedCompletion completion;
    const bool came = until([&] { return end.wire().reap(std::span(&completion, 1)) == 1 && completion.kind == kind; });
    return came ? std::optional(completion.ok) : std::nullopt;
  }
  std::optional<Loan> lend(Association& one, ByteSpan bytes) {
    const std::optional<Loan> loan = one.owner.wire().lend(one.to_user, bytes, kLoanCookie);
    if (!loan.has_value()) return std::nullopt;
    if (next(one.owner, Kind::kLent) == true) return loan;
    take_back(one, *loan);
    return std::nullopt;
  }
  void take_back(Association& one, const Loan& loan) {
    one.owner.wire().take_back(loan.number);
    EXPECT_TRUE(next(one.owner, Kind::kTakenBack).has_value());
  }
  bool read(Association& one, const Loan& loan, size_t bytes) {
    const OneSidedOperation operation = one.read(loan, bytes);
    EXPECT_EQ(one.user.wire().post(std::span(&operation, 1)), 1u);
    return next(one.user, Kind::kOperation) == true;
  }
  /// What is lent is read, after as many attempts as it takes.
  void expect_works(Association& one) {
    bool ok = false;
    for (int attempt = 0; attempt < 20 && !ok; ++attempt) {
      ASSERT_TRUE(join(one));
      const std::optional<Loan> loan = lend(one, one.owner.memory.first(20'000));
      if (!loan.has_value()) continue;
      std::fill_n(one.user.memory.begin(), 20'000, std::byte{0});
      ok = read(one, *loan, 20'000);
      take_back(one, *loan);
    }
    ASSERT_TRUE(ok);
    EXPECT_TRUE(std::ranges::equal(one.user.memory.first(20'000), one.owner.memory.first(20'000)));
    EXPECT_EQ(one.user.wire().operations_in_flight() + one.owner.wire().operations_in_flight(), 0u);
  }

  const SteadyClock clock_;
  const std::unique_ptr<VerbsFabric> here_;
  const std::unique_ptr<VerbsFabric> there_;
  std::vector<std::unique_ptr<End>> owners_;
  std::vector<std::unique_ptr<End>> users_;
  std::vector<Association> associations_;  // owner 0 with user 0, 0 with 1, 1 with 0, 1 with 1
};

TEST_F(RcShared, Join_FourAssociationsOnePair) {
  // All at once.
  ASSERT_TRUE(until([&] {
    size_t joined = 0;
    for (Association& one : associations_) joined += one.number() != 0 ? 1 : 0;
    return joined == associations_.size();
  }));
  EXPECT_EQ(hub_here().pair_count(), 1u);
  EXPECT_EQ(hub_there().pair_count(), 1u);
  std::vector<uint64_t> numbers;
  for (Association& one : associations_) numbers.push_back(one.number());
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end()) << "each has a number of its own";
  for (const auto& end : owners_) EXPECT_EQ(end->wire().queue_pairs(), 0u);
  for (Association& one : associations_) expect_works(one);
  EXPECT_EQ(hub_there().counts(hub_here().process()).reads, 4u);
  EXPECT_EQ(hub_there().counts(hub_here().process()).read_bytes, 80'000u);
  EXPECT_EQ(hub_here().pair_count(), 1u);
}

TEST_F(RcShared, Join_RemoteMemoryHasAConnectionOfItsOwn) {
  Association& one = associations_[0];
  ASSERT_TRUE(join(one));
  ASSERT_TRUE(until([&] { return one.user.wire().ready(one.to_owner); }));
  EXPECT_EQ(one.user.wire().queue_pairs(), 1u);
  const uint32_t key = one.owner.wire().open_region(one.owner.memory.first(4096), memory_rights::kAll).value().key;
  OneSidedOperation write;
  write.kind = OneSidedOperation::Kind::kWrite;
  write.peer = one.to_owner;
  write.local = one.user.memory.first(100);
  write.address = reinterpret_cast<uintptr_t>(one.owner.memory.data());
  write.key = key;
  ASSERT_EQ(one.user.wire().post(std::span(&write, 1)), 1u);
  EXPECT_EQ(next(one.user, Kind::kOperation), true);
  // By the shared one nobody writes.
  write.connection = one.number();
  ASSERT_NE(write.connection, 0u);
  ASSERT_EQ(one.user.wire().post(std::span(&write, 1)), 1u);
  EXPECT_EQ(next(one.user, Kind::kOperation), false);
  EXPECT_EQ(one.number(), write.connection) << "it was not even posted";
  expect_works(one);
}

TEST_F(RcShared, Join_WithWhoKnowsOfNoSharingByAConnectionOfItsOwn) {
  const std::unique_ptr<Device> device = Device::open({"rxe0"}, 0).value();
  AddressResolver resolver(*device, 0);
  End old(VerbsTransport::create(*device, resolver, {}, identity_of(77), Rng(77)).value(), 77);
  Association one(old, *users_[0]);
  ASSERT_TRUE(until([&] {
    old.turn();
    return one.number() != 0;
  }));
  EXPECT_EQ(old.wire().queue_pairs(), 1u);
  EXPECT_EQ(users_[0]->wire().queue_pairs(), 1u);
  EXPECT_EQ(users_[0]->wire().shared_ways(), 0u);
}

TEST_F(RcShared, Sever_OthersGoOnUndisturbed) {
  ASSERT_TRUE(join_all());
  Association& severed = associations_[0];
  Association& other = associations_[3];
  const Loan lost = lend(severed, severed.owner.memory.first(1000)).value();
  const Loan kept = lend(other, other.owner.memory.first(1000)).value();
  const OneSidedOperation announced = severed.read(lost, 1000);
  const uint64_t others_number = other.number();
  severed.owner.wire().sever(severed.to_user);
  EXPECT_EQ(severed.owner.wire().stats().severed, 1u);
  // The user hears of it; what it was told of is not posted any more.
  ASSERT_TRUE(until([&] { return severed.number() != 0 && severed.number() != announced.connection; }));
  ASSERT_EQ(severed.user.wire().post(std::span(&announced, 1)), 1u);
  EXPECT_EQ(next(severed.user, Kind::kOperation), false);
  EXPECT_EQ(other.number(), others_number);
  EXPECT_TRUE(read(other, kept, 1000));
  take_back(severed, lost);
  take_back(other, kept);
  for (Association& one : associations_) expect_works(one);
  EXPECT_EQ(hub_here().pair_count(), 1u);
}

TEST_F(RcShared, Sever_WhoReadsOnReadsNothing) {
  ASSERT_TRUE(join_all());
  Association& one = associations_[0];
  const Loan loan = lend(one, one.owner.memory).value();
  const OneSidedOperation late = one.read(loan, 1000);
  one.owner.wire().sever(one.to_user);
  std::fill(one.owner.memory.begin(), one.owner.memory.end(), std::byte{3});
  std::fill(one.user.memory.begin(), one.user.memory.end(), std::byte{9});
  // The user does not know yet: the device refuses, and with it the pair ends.
  ASSERT_EQ(one.user.wire().post(std::span(&late, 1)), 1u);
  EXPECT_EQ(next(one.user, Kind::kOperation), false);
  EXPECT_EQ(std::ranges::count(one.user.memory, std::byte{9}), static_cast<std::ptrdiff_t>(kBytes));
  take_back(one, loan);
  for (Association& each : associations_) expect_works(each);
}

TEST_F(RcShared, Sever_UsersMemoryIsItsOwnAtOnce) {
  ASSERT_TRUE(join_all());
  Association& one = associations_[0];
  const Loan loan = lend(one, one.owner.memory).value();
  const std::vector<OneSidedOperation> many(RcPair::kUserDepth + 4, one.read(loan, kBytes));
  EXPECT_EQ(one.user.wire().post(many), RcPair::kUserDepth) << "its share of the queue";
  one.user.wire().sever(one.to_owner);
  EXPECT_EQ(one.user.wire().operations_in_flight(), 0u);
  std::array<OneSidedCompletion, kBurstMax> completions;
  EXPECT_EQ(one.user.wire().reap(completions), RcPair::kUserDepth);
  std::fill(one.user.memory.begin(), one.user.memory.end(), std::byte{9});
  for (int i = 0; i < 1000; ++i) one.owner.turn();
  EXPECT_EQ(std::ranges::count(one.user.memory, std::byte{9}), static_cast<std::ptrdiff_t>(kBytes));
  take_back(one, loan);
  for (Association& each : associations_) expect_works(each);
}

TEST_F(RcShared, Fault_OfThePairIsSeenByAllItsUsers) {
  for (int turn = 0; turn < 4; ++turn) {
    ASSERT_TRUE(join_all());
    std::vector<uint64_t> before;
    for (Association& one : associations_) before.push_back(one.number());
    Association& one = associations_[static_cast<size_t>(turn)];
    // Loans of all of them, which end with the pair.
    std::vector<Loan> loans;
    for (Association& each : associations_) loans.push_back(lend(each, each.owner.memory).value());
    (turn % 2 == 0 ? one.owner.wire() : one.user.wire()).fail_for_test(turn % 2 == 0 ? one.to_user : one.to_owner);
    ASSERT_TRUE(until([&] {
      for (size_t i = 0; i < associations_.size(); ++i) {
        if (associations_[i].number() == before[i]) return false;
      }
      return true;
    }));
    for (size_t i = 0; i < associations_.size(); ++i) take_back(associations_[i], loans[i]);
    for (Association& each : associations_) expect_works(each);
    EXPECT_EQ(hub_here().pair_count(), 1u);
    EXPECT_EQ(hub_there().pair_count(), 1u);
  }
}

TEST_F(RcShared, Ends_AnEndpointGoesWhileOthersRead) {
  ASSERT_TRUE(join_all());
  Association& stays = associations_[3];
  const Loan loan = lend(associations_[0], owners_[0]->memory).value();
  const OneSidedOperation operation = associations_[0].read(loan, kBytes);
  ASSERT_EQ(users_[0]->wire().post(std::span(&operation, 1)), 1u);
  users_.erase(users_.begin());
  owners_.erase(owners_.begin());
  expect_works(stays);
  EXPECT_EQ(owners_[0]->wire().hub()->pair_count(), 1u);
}

TEST_F(RcShared, Ends_APairThatNobodyUses) {
  ASSERT_TRUE(join_all());
  for (Association& one : associations_) one.user.wire().sever(one.to_owner);
  ASSERT_TRUE(until([&] { return hub_here().pair_count() + hub_there().pair_count() == 0; }));
  for (Association& one : associations_) expect_works(one);
}

TEST(RcPairUsers, AreBoundedAndHearOfTheEnd) {
  const std::unique_ptr<Device> device = Device::open({"rxe0"}, 0).value();
  ibv_cq* completions = ibv_create_cq(device->context(), 64, nullptr, nullptr, 0);
  ASSERT_NE(completions, nullptr);
  int woken = 0;
  std::vector<std::unique_ptr<RcInbox>> users;
  {
    RcPair pair(7, RcQueue::create(*device, completions, 1).value(), std::make_shared<PeerProgress>(), 0);
    for (uint32_t i = 0; i <= RcPair::kUsersMax; ++i) {
      users.push_back(std::make_unique<RcInbox>([&woken] { ++woken; }, 4));
      EXPECT_EQ(pair.join(*users.back()), i < RcPair::kUsersMax) << i;
    }
    EXPECT_EQ(pair.leave(*users[0]), size_t{RcPair::kUsersMax} - 1);
    EXPECT_TRUE(pair.join(*users.back()));
    users[1]->set_sleeping(true);
    pair.end();
    EXPECT_TRUE(pair.is_over());
    EXPECT_FALSE(pair.join(*users[0]));
    EXPECT_EQ(woken, 1) << "who sleeps";
    EXPECT_FALSE(users[0]->has_mail());
    std::vector<ibv_wc> mail;
    for (size_t i = 1; i < users.size(); ++i) EXPECT_TRUE(users[i]->has_mail() && users[i]->take(mail));
    EXPECT_TRUE(mail.empty());
    EXPECT_FALSE(users[1]->has_mail());
  }
  ibv_destroy_cq(completions);
}

TEST(PeerProgress, HoldsBackOnceForEachStall) {
  PeerProgress progress;
  TimeNs now = kSecond;
  progress.on_post(now);
  progress.on_post(now);
  EXPECT_FALSE(progress.give_up_stalled(now + ReadProgress::kStalledAfter - 1));
  now += ReadProgress::kStalledAfter;
  EXPECT_TRUE(progress.give_up_stalled(now));
  EXPECT_FALSE(progress.give_up_stalled(now)) << "another endpoint has found it";
  EXPECT_TRUE(progress.was_held() && progress.is_held(now));
  progress.on_end(0, now);
  progress.on_end(0, now);
  EXPECT_FALSE(progress.is_held(now + ReadProgress::kHoldFirst));
  EXPECT_EQ(progress.counts().reads, 2u);
  EXPECT_EQ(progress.counts().read_bytes, 0u);
  EXPECT_EQ(progress.counts().stalls, 1u);
}

/// One endpoint, which runs on a thread of its own and sleeps when it has nothing to do.
class Reader {
 public:
  Reader(Association& association, const Loan& loan, int count) : one_(association), loan_(loan), count_(count) {}

  void run() {
    const SteadyClock clock;
    const TimeNs limit = clock.now_ns() + kPatience;
    int posted = 0;
    while (done_ < count_ && clock.now_ns() < limit) {
      for (; posted < count_ && posted - done_ < 8; ++posted) {
        const OneSidedOperation operation = one_.read(loan_, 5000);
        if (one_.user.wire().post(std::span(&operation, 1)) == 0) break;
      }
      std::array<OneSidedCompletion, kBurstMax> completions;
      const size_t count = one_.user.wire().reap(completions);
      for (size_t i = 0; i < count; ++i) ok_ += completions[i].ok ? 1 : 0;
      done_ += static_cast<int>(count);
      if (count == 0) one_.user.transport->wait(3600 * kSecond);
      one_.user.turn();
    }
  }
  [[nodiscard]] int ok() const { return ok_; }

 private:
  Association& one_;
  const Loan loan_;
  const int count_;
  int done_ = 0;
  int ok_ = 0;
};

TEST_F(RcShared, Threads_EachGetsItsOwnCompletionsAndSleepersWake) {
  ASSERT_TRUE(join_all());
  constexpr int kReads = 500;
  std::vector<std::unique_ptr<Reader>> readers;
  for (const size_t which : {size_t{0}, size_t{3}}) {
    Association& one = associations_[which];
    readers.push_back(std::make_unique<Reader>(one, lend(one, one.owner.memory).value(), kReads));
  }
  std::vector<std::thread> threads;
  for (const auto& reader : readers) threads.emplace_back([&reader] { reader->run(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& reader : readers) EXPECT_EQ(reader->ok(), kReads);
  EXPECT_TRUE(std::ranges::equal(users_[0]->memory.first(5000), owners_[0]->memory.first(5000)));
  EXPECT_TRUE(std::ranges::equal(users_[1]->memory.first(5000), owners_[1]->memory.first(5000)));
}

/// Both ends of an association, on one thread.
class Exchange {
 public:
  explicit Exchange(Association& association) : one_(association) {}

  /// Lends, reads and takes back until told to stop; counts what was read.
  void run(const std::atomic<bool>& stop) {
    while (!stop) {
      std::optional<Loan> loan;
      turn_until([&] {
        if (one_.number() != 0) loan = one_.owner.wire().lend(one_.to_user, one_.owner.memory, kLoanCookie);
        return stop || loan.has_value();
      });
      if (!loan.has_value()) return;
      const OneSidedOperation operation = one_.read(*loan, 5000);
      if (next(one_.owner).ok && operation.connection != 0) {
        EXPECT_EQ(one_.user.wire().post(std::span(&operation, 1)), 1u);
        if (next(one_.user).ok) ++reads_;
      }
      one_.owner.wire().take_back(loan->number);
      EXPECT_EQ(next(one_.owner).kind, Kind::kTakenBack);
    }
  }
  /// Fails the pair `count` times, each time after it stood and `other` has read by it.
  void fail(int count, const Exchange& other) {
    for (int fault = 0; fault < count; ++fault) {
      turn_until([&] { return one_.number() != 0; });
      one_.user.wire().fail_for_test(one_.to_owner);
      const int before = other.reads_;
      turn_until([&] { return other.reads_ >= before + 3; });
      EXPECT_GE(other.reads_, before + 3) << "after fault " << fault;
    }
  }

 private:
  void turn_until(const std::function<bool()>& done) {
    const TimeNs limit = clock_.now_ns() + kPatience;
    while (!done() && clock_.now_ns() < limit) {
      one_.owner.turn();
      one_.user.turn();
    }
  }
  OneSidedCompletion next(End& end) {
    OneSidedCompletion out;
    bool came = false;
    turn_until([&] { return came = end.wire().reap(std::span(&out, 1)) == 1; });
    EXPECT_TRUE(came);
    return out;
  }

  Association& one_;
  const SteadyClock clock_;
  std::atomic<int> reads_ = 0;
};

TEST_F(RcShared, Threads_OneFailsThePairAgainAndAgain) {
  ASSERT_TRUE(join_all());
  Exchange exchange(associations_[0]);
  Exchange spoiler(associations_[3]);
  std::atomic<bool> stop = false;
  std::thread other([&] { exchange.run(stop); });
  spoiler.fail(10, exchange);
  stop = true;
  other.join();
  for (Association& one : associations_) expect_works(one);
}

}  // namespace
}  // namespace skua::rpc::verbs
