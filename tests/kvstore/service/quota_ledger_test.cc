#include "kvstore/service/quota_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Quotas> quotas_of(const std::vector<ClientQuota>& quotas, uint32_t workers = 1) {
  return std::make_shared<const Quotas>(quotas, workers);
}

/// How many requests of so many bytes are served at this moment.
int served(QuotaAccount& account, size_t bytes, TimeNs now) {
  int count = 0;
  while (count < 100'000 && !account.within(bytes, now).has_value()) ++count;
  return count;
}

TEST(QuotaLedger, KnowsOnlyThoseWhoHaveAQuota) {
  QuotaLedger ledger;
  EXPECT_FALSE(ledger.is_in_force());
  EXPECT_EQ(ledger.account("client/a"), nullptr);
  ledger.set(quotas_of({{"client/a", 5, 0, 0, 0}}), 0);
  EXPECT_TRUE(ledger.is_in_force());
  EXPECT_NE(ledger.account("client/a"), nullptr);
  EXPECT_EQ(ledger.account("client/b"), nullptr);
  EXPECT_EQ(ledger.account(""), nullptr);
  ledger.set(quotas_of({}), 0);
  EXPECT_FALSE(ledger.is_in_force());
  EXPECT_EQ(ledger.account("client/a"), nullptr);
}

TEST(QuotaLedger, EachWorkerHasItsShareOfTheRates) {
  QuotaLedger ledger;
  ledger.set(quotas_of({{"client/a", 100, 0, 0, 0}, {"client/b", 0, 4000, 0, 0}}, 4), 0);
  QuotaAccount& a = *ledger.account("client/a");
  EXPECT_EQ(served(a, 1'000'000, 0), 25);
  EXPECT_EQ(a.within(1, 0), QuotaKind::kOperations);
  EXPECT_EQ(served(a, 1, kSecond), 25);
  QuotaAccount& b = *ledger.account("client/b");
  EXPECT_EQ(served(b, 100, 0), 10);
  EXPECT_EQ(b.within(1, 0), QuotaKind::kBytes);
  EXPECT_EQ(served(b, 100, kSecond), 10);
}

TEST(QuotaLedger, RepliesAndFurtherOperationsAreWaitedForLater) {
  QuotaLedger ledger;
  ledger.set(quotas_of({{"client/a", 10, 1000, 0, 0}}), 0);
  QuotaAccount& account = *ledger.account("client/a");
  EXPECT_EQ(account.within(100, 0), std::nullopt);
  account.replied(2900);  // 2,000 more than there were
  EXPECT_EQ(account.within(1, kSecond), QuotaKind::kBytes);
  EXPECT_EQ(account.within(1, 2 * kSecond), QuotaKind::kBytes);
  EXPECT_EQ(account.within(1, 2 * kSecond + 10 * kMillisecond), std::nullopt);
  account.more(29);
  EXPECT_EQ(account.within(1, 3 * kSecond), QuotaKind::kOperations);
  EXPECT_EQ(account.within(1, 5 * kSecond), std::nullopt);
}

/// What is refused costs nothing, or a client that tries again would never have done with it.
TEST(QuotaLedger, ARefusedRequestIsNotCounted) {
  QuotaLedger ledger;
  ledger.set(quotas_of({{"client/a", 10, 1000, 0, 0}}), 0);
  QuotaAccount& account = *ledger.account("client/a");
  EXPECT_EQ(served(account, 1000, 0), 1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(account.within(1000, 0), QuotaKind::kBytes);
  EXPECT_EQ(served(account, 10, kSecond), 10);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(account.within(1000, kSecond), QuotaKind::kOperations);
  EXPECT_EQ(served(account, 10, 2 * kSecond), 10);
}

TEST(QuotaLedger, WhatWasCountedStaysWhenQuotasChange) {
  QuotaLedger ledger;
  ledger.set(quotas_of({{"client/a", 10, 0, 0, 1}}), 0);
  EXPECT_EQ(served(*ledger.account("client/a"), 1, 0), 10);
  EXPECT_TRUE(ledger.account("client/a")->admit(17, 0));
  ledger.set(quotas_of({{"client/a", 10, 0, 0, 1}, {"client/b", 10, 0, 0, 0}}), 0);
  EXPECT_EQ(served(*ledger.account("client/a"), 1, 0), 0) << "no new burst";
  EXPECT_FALSE(ledger.account("client/a")->admit(18, 0));
  ledger.set(quotas_of({{"client/a", 20, 0, 0, 2}}), 0);
  EXPECT_EQ(served(*ledger.account("client/a"), 1, 0), 20) << "another rate begins anew";
  EXPECT_TRUE(ledger.account("client/a")->admit(18, 0));
  EXPECT_THAT(ledger.account("client/a")->quota().refusal(QuotaKind::kOperations), HasSubstr("20 operations/s"));
}

TEST(Quotas, RefusalsNameTheClientAndTheQuotaAndWhatHelps) {
  const auto quotas = quotas_of({{"client/a", 1, 2, 3, 4}});
  const NodeQuota& quota = *quotas->find("client/a");
  EXPECT_THAT(quota.refusal(QuotaKind::kOperations),
              HasSubstr("client/a has used up its quota of this node: 1 operat"));
  EXPECT_THAT(quota.refusal(QuotaKind::kBytes), HasSubstr("2 bytes/s"));
  EXPECT_THAT(quota.refusal(QuotaKind::kSessions), HasSubstr("3 sessions"));
  EXPECT_THAT(quota.refusal(QuotaKind::kClientIds), HasSubstr("4 client ids"));
  for (const std::string& text : quota.refusals) EXPECT_THAT(text, HasSubstr("skuactl quota set"));
}

/// The workers of a node take and give back places at the same time.
TEST(SessionPlace, AreNeverMoreThanTheLimitAndNoneIsLost) {
  const auto quotas = quotas_of({{"client/a", 0, 0, 3, 0}});
  std::atomic<int> held = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        auto place = SessionPlace::take(quotas, "client/a");
        if (!place.ok()) continue;
        const int now = ++held;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        --held;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 3);
  EXPECT_EQ(quotas->find("client/a")->sessions, 0u);
}

TEST(SessionPlace, MovesAndEndsOnce) {
  const auto quotas = quotas_of({{"client/a", 0, 0, 1, 0}});
  const auto& sessions = quotas->find("client/a")->sessions;
  {
    SessionPlace place = *SessionPlace::take(quotas, "client/a");
    SessionPlace moved = std::move(place);
    EXPECT_TRUE(moved.is_counted());
    EXPECT_EQ(sessions, 1u);
    EXPECT_FALSE(SessionPlace::take(quotas, "client/a").ok());
    EXPECT_EQ(sessions, 1u);
    moved = SessionPlace();
    EXPECT_EQ(sessions, 0u);
    EXPECT_FALSE(SessionPlace::take(quotas, "client/b")->is_counted());
  }
  EXPECT_EQ(sessions, 0u);
  const SessionPlace first = SessionPlace::keep(quotas, "client/a");
  const SessionPlace second = SessionPlace::keep(quotas, "client/a");
  EXPECT_EQ(sessions, 2u) << "sessions that stand count, also beyond the limit";
}

}  // namespace
}  // namespace skua::kv
