// What surrounds clients that must be known: checks of passwords on their own thread, deadlines, files that change.
#include "kvstore/gateway/client_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/gateway/client_certificate.h"
#include "kvstore/gateway/connection_deadlines.h"
#include "kvstore/gateway/fair_queue.h"
#include "kvstore/gateway/password_checker.h"

namespace skua::kv::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Verdict = PasswordChecker::Verdict;

/// Verdicts in the order of their coming.
class Verdicts {
 public:
  PasswordChecker::VerdictFn taker(int number) {
    return [this, number](Verdict verdict) {
      {
        const std::lock_guard lock(mutex_);
        came_.emplace_back(number, verdict);
      }
      changed_.notify_all();
    };
  }
  std::vector<std::pair<int, Verdict>> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return came_.size() >= count; });
    return came_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, Verdict>> came_;
};

TEST(PasswordChecker, RemembersWhatWasRight_AndNothingElse) {
  const PasswordHash hash = *hash_password("right");
  Verdicts verdicts;
  PasswordChecker checker;
  EXPECT_EQ(checker.check(hash, "right", "a", verdicts.taker(0)).verdict, std::nullopt);
  EXPECT_EQ(checker.check(hash, "wrong", "a", verdicts.taker(1)).verdict, std::nullopt);
  EXPECT_EQ(checker.check(std::nullopt, "right", "a", verdicts.taker(2)).verdict, std::nullopt)
      << "there is no such user";
  EXPECT_EQ(checker.check(hash, "right", "a", verdicts.taker(3)).verdict, std::nullopt);
  EXPECT_THAT(verdicts.wait_for(4), ElementsAre(std::pair(0, Verdict::kRight), std::pair(1, Verdict::kWrong),
                                                std::pair(2, Verdict::kWrong), std::pair(3, Verdict::kRight)));
  EXPECT_EQ(checker.check(hash, "right", "b", verdicts.taker(4)).verdict, Verdict::kRight) << "at once";
  EXPECT_EQ(checker.check(hash, "wrong", "b", verdicts.taker(5)).verdict, std::nullopt);
  PasswordHash other = hash;
  other.salt[0] ^= 1;
  EXPECT_EQ(checker.check(other, "right", "b", verdicts.taker(6)).verdict, std::nullopt)
      << "the user has another password";
  EXPECT_THAT(verdicts.wait_for(6).back(), std::pair(6, Verdict::kWrong));
}

TEST(PasswordChecker, AddressesHaveTheirTurns_AndABound) {
  const PasswordHash hash = *hash_password("right");
  Verdicts verdicts;
  PasswordChecker checker;
  size_t taken = 0;
  for (size_t i = 0; i < 2 * PasswordChecker::kWaitingPerAddressMax; ++i) {
    const auto verdict = checker.check(hash, "wrong", "attacker", verdicts.taker(0)).verdict;
    if (verdict == Verdict::kBusy) break;
    ++taken;
  }
  // The checker may have taken some meanwhile.
  EXPECT_GE(taken, PasswordChecker::kWaitingPerAddressMax);
  EXPECT_LT(taken, 2 * PasswordChecker::kWaitingPerAddressMax);
  EXPECT_EQ(checker.check(hash, "right", "friend", verdicts.taker(1)).verdict, std::nullopt);
  size_t before = 0;
  for (size_t count = 1; before == 0 && count < 100; ++count) {
    const auto came = verdicts.wait_for(count);
    for (size_t i = 0; i < came.size(); ++i) before = came[i].first == 1 ? i : before;
  }
  EXPECT_GT(before, 0U) << "the friend waits for a few of the attacker's at most";
  checker.stop();
  EXPECT_EQ(checker.check(hash, "wrong", "friend", verdicts.taker(2)).verdict, Verdict::kBusy);
}

/// The checker's thread stands still at the verdict on a first password, so that what waits behind it is known.
class HeldChecker {
 public:
  HeldChecker() {
    EXPECT_EQ(checker
                  .check(hash, "first", "first",
                         [this](Verdict) {
                           is_held.set_value();
                           let_go.get_future().wait();
                         })
                  .verdict,
              std::nullopt);
    is_held.get_future().wait();
  }

  const PasswordHash hash = *hash_password("right");
  std::promise<void> is_held;
  std::promise<void> let_go;
  PasswordChecker checker;
};

TEST(PasswordChecker, WhatNobodyWaitsForIsNotChecked) {
  Verdicts verdicts;
  HeldChecker held;
  std::vector<PasswordChecker::CheckId> checks;
  for (size_t i = 0; i < PasswordChecker::kWaitingPerAddressMax; ++i) {
    const auto answer = held.checker.check(held.hash, "wrong", "a", verdicts.taker(0));
    ASSERT_NE(answer.waits, 0U);
    checks.push_back(answer.waits);
  }
  EXPECT_EQ(held.checker.check(held.hash, "right", "a", verdicts.taker(1)).verdict, Verdict::kBusy);
  for (const auto check : checks) held.checker.forget(check);
  held.checker.forget(checks[0]);
  EXPECT_NE(held.checker.check(held.hash, "right", "a", verdicts.taker(1)).waits, 0U) << "there is room again";
  held.let_go.set_value();
  EXPECT_THAT(verdicts.wait_for(1), ElementsAre(std::pair(1, Verdict::kRight))) << "no other verdict came before";
}

TEST(PasswordChecker, WhoSendsNoMoreIsCheckedLast_AndTakesNoRoom) {
  Verdicts verdicts;
  HeldChecker held;
  const auto waits = [&](int number, const std::string& address) {
    return held.checker.check(held.hash, "wrong", address, verdicts.taker(number)).waits;
  };
  EXPECT_TRUE(held.checker.put_last(waits(0, "a")));
  EXPECT_TRUE(held.checker.put_last(waits(1, "b")));
  EXPECT_NE(waits(2, "a"), 0U);
  EXPECT_NE(waits(3, "c"), 0U);
  held.let_go.set_value();
  EXPECT_THAT(verdicts.wait_for(4), ElementsAre(std::pair(2, Verdict::kWrong), std::pair(3, Verdict::kWrong),
                                                std::pair(0, Verdict::kWrong), std::pair(1, Verdict::kWrong)));
}

TEST(PasswordChecker, SoManyArePutLast) {
  Verdicts verdicts;
  HeldChecker held;
  for (size_t i = 0; i < PasswordChecker::kLastMax; ++i) {
    EXPECT_TRUE(held.checker.put_last(held.checker.check(held.hash, "wrong", "a", verdicts.taker(0)).waits));
  }
  const auto further = held.checker.check(held.hash, "wrong", "a", verdicts.taker(0)).waits;
  EXPECT_FALSE(held.checker.put_last(further));
  EXPECT_TRUE(held.checker.put_last(further)) << "it waits no more";
  held.let_go.set_value();
  held.checker.stop();
}

TEST(FairQueue, AddressesHaveTheirTurns) {
  FairQueue<uint64_t> queue;
  EXPECT_EQ(queue.take(), std::nullopt);
  for (uint64_t id = 0; id < 100; ++id) queue.add(id, "10.0.0.1", uint64_t{id});
  queue.add(200, "10.0.0.2", 200);
  queue.add(201, "10.0.0.2", 201);
  queue.add(300, "10.0.0.3", 300);
  std::vector<uint64_t> order;
  for (int i = 0; i < 7; ++i) order.push_back(*queue.take());
  EXPECT_THAT(order, ElementsAre(0, 200, 300, 1, 201, 2, 3));
}

TEST(FairQueue, AConnectionWaitsOnce_AndLeavesWhenItEnds) {
  FairQueue<uint64_t> queue;
  queue.add(1, "a", 1);
  queue.add(2, "a", 2);
  queue.add(1, "a", 1);
  queue.add(3, "b", 3);
  queue.remove(1);
  queue.remove(3);
  queue.remove(4);
  EXPECT_FALSE(queue.contains(1));
  EXPECT_TRUE(queue.contains(2));
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_EQ(queue.size_of("a"), 1U);
  EXPECT_EQ(queue.size_of("b"), 0U);
  EXPECT_EQ(queue.take(), 2U);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.take(), std::nullopt);
  queue.add(1, "a", 1);
  EXPECT_EQ(queue.take(), 1U);
}

TEST(ConnectionDeadlines, InTheOrderOfTheirComing) {
  ConnectionDeadlines deadlines(100);
  EXPECT_EQ(deadlines.next_ms(), 0);
  deadlines.add(7, 1000);
  deadlines.add(8, 1050);
  EXPECT_EQ(deadlines.next_ms(), 1100);
  EXPECT_EQ(deadlines.take_due(1099), std::nullopt);
  EXPECT_EQ(deadlines.take_due(1100), 7U);
  EXPECT_EQ(deadlines.take_due(1100), std::nullopt);
  EXPECT_EQ(deadlines.take_due(2000), 8U);
  EXPECT_TRUE(deadlines.empty());
}

TEST(ChangedFiles, AreTakenWhenTheyHaveComeToRest) {
  ChangedFiles files("a");
  EXPECT_FALSE(files.have_changed("a"));
  EXPECT_FALSE(files.have_changed("b")) << "somebody may be writing";
  EXPECT_FALSE(files.have_changed("c"));
  EXPECT_TRUE(files.have_changed("c"));
  EXPECT_TRUE(files.have_changed("c")) << "they could not be read";
  files.take();
  EXPECT_FALSE(files.have_changed("c"));
  EXPECT_FALSE(files.have_changed("d"));
  EXPECT_FALSE(files.have_changed("c")) << "as it was";
}

TEST(ClientSecurity, SaysWhichFileIsWrong) {
  const std::string path = ::testing::TempDir() + "/gateway_security_users";
  std::ofstream(path) << "ada certificate cache=all\n";
  const auto bad = load_client_security({.tls = {}, .users = path}, {{0, "cache"}});
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(bad.status().message(), HasSubstr(path + ": line 1: rights are"));
  std::ofstream(path) << "ada certificate cache=read\n";
  const auto good = load_client_security({.tls = {}, .users = path}, {{0, "cache"}});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->users->size(), 1U);
  EXPECT_EQ(good->tls, nullptr);
  EXPECT_THAT(load_client_security({.tls = {}, .users = path + "/none"}, {}).status().message(),
              HasSubstr("cannot be read"));
  EXPECT_THAT(load_client_security({.tls = {.certificate = path, .key = path}, .users = ""}, {}).status().message(),
              HasSubstr(path + ": not a certificate in PEM"));
}

TEST(ClientCertificate, OnlyOfAClusterStandsForAUser) {
  EXPECT_EQ(certificate_user({}), "");
  EXPECT_EQ(certificate_user({"x", "y"}), "");
}

}  // namespace
}  // namespace skua::kv::gateway
