#include "control/store/election_core.h"

#include <gtest/gtest.h>

#include <map>

#include "rpc/base/rng.h"

namespace skua::control {
namespace {

using Action = ElectionCore::Action;

constexpr ElectionOptions kOptions{.lease_ns = 5 * kSecond, .period_ns = kSecond};

/// A core with lease 7 since time 0.
ElectionCore with_lease() {
  ElectionCore core(kOptions);
  EXPECT_EQ(core.next(0).action, Action::kGrantLease);
  core.granted(7, 0);
  return core;
}

TEST(ElectionCore, WinsAnEmptySeat) {
  ElectionCore core = with_lease();
  EXPECT_FALSE(core.leadership(0).leads);
  ASSERT_EQ(core.next(0).action, Action::kCampaign);
  core.campaigned(7, 42, "us", 10);
  EXPECT_EQ(core.leadership(10), (Leadership{true, 42, "us", ""}));
  EXPECT_EQ(core.next(10).action, Action::kWait);
}

TEST(ElectionCore, RenewsAndLooksEachPeriod) {
  ElectionCore core = with_lease();
  core.campaigned(7, 42, "us", 10);
  EXPECT_EQ(core.next(10).until, kSecond);
  ASSERT_EQ(core.next(kSecond).action, Action::kRenewLease);
  core.renewed(kSecond);
  ASSERT_EQ(core.next(kSecond + 10).action, Action::kCampaign);
  core.campaigned(7, 42, "us", kSecond + 20);
  EXPECT_TRUE(core.leadership(5 * kSecond + 1).leads);
}

TEST(ElectionCore, FollowsWhoeverHasTheSeat) {
  ElectionCore core = with_lease();
  core.campaigned(9, 42, "other", 10);
  EXPECT_EQ(core.leadership(10), (Leadership{false, 42, "other", ""}));
  EXPECT_EQ(core.leadership(10 + 5 * kSecond), Leadership{}) << "what was seen long ago says nothing";
}

TEST(ElectionCore, StopsLeadingWhenTheLeaseMayBeOver) {
  ElectionCore core = with_lease();
  core.campaigned(7, 42, "us", 10);
  ASSERT_EQ(core.next(kSecond).action, Action::kRenewLease);
  core.failed("no answer", 2 * kSecond);
  EXPECT_TRUE(core.leadership(5 * kSecond - 1).leads);
  EXPECT_EQ(core.leadership(5 * kSecond), (Leadership{false, 0, "", "no answer"}));
}

TEST(ElectionCore, WaitsNoLongerThanItsLead) {
  ElectionCore core = with_lease();
  core.campaigned(7, 42, "us", 10);
  core.failed("no answer", 5 * kSecond - 1);
  EXPECT_EQ(core.next(5 * kSecond - 1).until, 5 * kSecond);
}

TEST(ElectionCore, RenewalAfterTheEndMustBeFollowedByALook) {
  ElectionCore core = with_lease();
  core.campaigned(7, 42, "us", 10);
  ASSERT_EQ(core.next(6 * kSecond).action, Action::kRenewLease);
  core.renewed(6 * kSecond);
  EXPECT_FALSE(core.leadership(6 * kSecond).leads);
  ASSERT_EQ(core.next(6 * kSecond).action, Action::kCampaign);
  core.campaigned(7, 42, "us", 6 * kSecond);
  EXPECT_TRUE(core.leadership(6 * kSecond).leads);
}

TEST(ElectionCore, GoneLeaseIsReplaced) {
  ElectionCore core = with_lease();
  core.campaigned(7, 42, "us", 10);
  core.lease_gone();
  EXPECT_FALSE(core.leadership(20).leads);
  ASSERT_EQ(core.next(20).action, Action::kGrantLease);
  core.granted(8, 20);
  ASSERT_EQ(core.next(20).action, Action::kCampaign);
  core.campaigned(7, 42, "us", 30);
  EXPECT_FALSE(core.leadership(30).leads) << "the key of an earlier lease is another's";
}

TEST(ElectionCore, FailureMakesAPause) {
  ElectionCore core(kOptions);
  ASSERT_EQ(core.next(0).action, Action::kGrantLease);
  core.failed("no answer", 10);
  const auto step = core.next(10);
  EXPECT_EQ(step.action, Action::kWait);
  EXPECT_EQ(core.next(step.until).action, Action::kGrantLease);
  EXPECT_EQ(core.leadership(10).trouble, "no answer");
}

/// Several cores against one seat, with calls that are lost on their way there or back, leases that run out, and
/// pauses: never do two believe to lead.
TEST(ElectionCore, RandomRunsNeverHaveTwoLeaders) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    std::map<int64_t, TimeNs> leases;  // and when they end
    int64_t key_lease = 0;
    uint64_t term = 0;
    uint64_t revision = 1;
    int64_t last_lease = 0;
    uint64_t led = 0;
    std::vector<ElectionCore> cores(3, ElectionCore(kOptions));
    for (TimeNs now = 0; now < 200 * kSecond; now += static_cast<TimeNs>(rng.below(200)) * kMillisecond) {
      std::erase_if(leases, [&](const auto& lease) { return lease.second <= now; });
      if (!leases.contains(key_lease)) key_lease = 0;
      ElectionCore& core = cores[rng.below(cores.size())];
      if (const auto step = core.next(now); step.action != Action::kWait) {
        const bool arrives = rng.chance(0.9);
        const bool answered = arrives && rng.chance(0.9);
        // The call takes effect somewhat after it was sent.
        const TimeNs then = now + static_cast<TimeNs>(rng.below(100)) * kMillisecond;
        const bool lives = leases.contains(core.lease());
        if (step.action == Action::kGrantLease && arrives) leases[++last_lease] = then + kOptions.lease_ns;
        if (step.action == Action::kRenewLease && arrives && lives) leases[core.lease()] = then + kOptions.lease_ns;
        if (step.action == Action::kCampaign && arrives && lives && key_lease == 0) {
          key_lease = core.lease();
          term = ++revision;
        }
        if (!answered) {
          core.failed("lost", now);
        } else if (step.action == Action::kGrantLease) {
          core.granted(last_lease, now);
        } else if (!lives) {
          core.lease_gone();
        } else if (step.action == Action::kRenewLease) {
          core.renewed(now);
        } else {
          core.campaigned(key_lease, term, "x", now);
        }
      }
      uint64_t leaders = 0;
      for (const ElectionCore& each : cores) leaders += each.leadership(now).leads ? 1 : 0;
      ASSERT_LE(leaders, 1u) << "seed " << seed << " at " << now;
      led += leaders;
    }
    EXPECT_GT(led, 0u) << seed;
  }
}

}  // namespace
}  // namespace skua::control
