#include "rpc/transport/sealed/channel_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

using ::testing::HasSubstr;

constexpr DurationNs kDeadline = 10 * kSecond;

ChannelHolder client(const std::string& name) {
  return ChannelHolder::of({.source = 1, .principal = name});
}

ChannelHolder node(const std::string& name) {
  return ChannelHolder::of({.source = 1, .principal = name, .is_node = true});
}

/// From a source whose principal is not known.
ChannelHolder stranger(uint64_t source) {
  return ChannelHolder::of({.source = source, .principal = {}});
}

class ChannelSharesTest : public ::testing::Test {
 protected:
  [[nodiscard]] absl::StatusOr<PeerId> victim(const ChannelHolder& holder, TimeNs now = 0) {
    return shares_.victim_for(holder, now, [this](PeerId id) {
      ++questions_;
      return in_use_.contains(id);
    });
  }
  [[nodiscard]] bool is_refused(const ChannelHolder& holder, TimeNs now = 0) {
    return absl::IsResourceExhausted(victim(holder, now).status());
  }
  void add(PeerId id, const ChannelHolder& holder, TimeNs now = 0) {
    ASSERT_EQ(victim(holder, now).value(), kNoPeer);
    shares_.add(id, holder, true, now);
  }
  /// A channel that carried a session until then.
  void add_idle(PeerId id, const ChannelHolder& holder, TimeNs since) {
    add(id, holder);
    shares_.prove(id);
    shares_.rest(id, since);
  }

  ChannelShares shares_{{.channels_max = 8, .reserved = 2, .per_principal = 3, .per_node = 3, .pending_ns = kDeadline}};
  std::set<PeerId> in_use_;
  int questions_ = 0;
};

TEST(ChannelLimits, HalfForAPrincipalAnEighthForANodeAndAQuarterForAllNodes) {
  const ChannelLimits limits = ChannelLimits::of(8192, kDeadline);
  EXPECT_EQ(limits.per_principal, 4096u);
  EXPECT_EQ(limits.per_node, 1024u);
  EXPECT_EQ(limits.reserved, 2048u);
  EXPECT_EQ(ChannelLimits::of(20, kDeadline).per_principal, 16u);
}

TEST_F(ChannelSharesTest, APrincipalHasAShareOfAll) {
  for (PeerId id = 0; id < 3; ++id) add(id, client("client/a"));
  const absl::Status refused = victim(client("client/a")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("client/a has 3 channels"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("close sessions"));
  EXPECT_EQ(victim(client("client/b")).value(), kNoPeer);
  shares_.remove(1);
  EXPECT_EQ(victim(client("client/a")).value(), kNoPeer);
}

TEST_F(ChannelSharesTest, WithoutPrincipalsASourceIsOne) {
  for (PeerId id = 0; id < 3; ++id) add(id, stranger(7));
  EXPECT_TRUE(is_refused(stranger(7)));
  EXPECT_EQ(victim(stranger(8)).value(), kNoPeer);
}

TEST_F(ChannelSharesTest, TheLastOnesAreForNodesAndOwnDials) {
  for (PeerId id = 0; id < 6; ++id) add(id, client(absl::StrCat("client/", id)));
  const absl::Status refused = victim(client("client/new")).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the last 2 of them kept for nodes"));
  add(6, node("node/1"));
  shares_.add(7, {}, false, 0);
  EXPECT_TRUE(is_refused(node("node/2")));
  EXPECT_TRUE(is_refused({}));
}

TEST_F(ChannelSharesTest, OwnDialsHaveNoShare) {
  for (PeerId id = 0; id < 8; ++id) {
    ASSERT_EQ(victim({}).value(), kNoPeer);
    shares_.add(id, {}, false, 0);
  }
  EXPECT_TRUE(is_refused({}));
}

TEST_F(ChannelSharesTest, OfItsOwnTheOneThatRestedLongestGoes) {
  add_idle(0, client("client/a"), 30);
  add_idle(1, client("client/a"), 10);
  add_idle(2, client("client/a"), 20);
  EXPECT_EQ(victim(client("client/a")).value(), 1u);
  shares_.touch(1, 40);
  EXPECT_EQ(victim(client("client/a")).value(), 2u);
}

TEST_F(ChannelSharesTest, IdleChannelsAreForThoseWhoHaveFewer) {
  for (PeerId id = 0; id < 6; ++id) add_idle(id, client(absl::StrCat("client/", id % 3)), 100 + id);
  in_use_.insert(0);
  EXPECT_EQ(victim(client("client/new")).value(), 1u);
  EXPECT_EQ(victim(client("client/2")).value(), 2u);  // its own
  for (PeerId id = 0; id < 6; ++id) shares_.touch(id, 200);
  EXPECT_TRUE(is_refused(client("client/new"), 1000 * kSecond));
}

TEST_F(ChannelSharesTest, IdleChannelsOfThoseWhoHaveNoMoreStay) {
  for (PeerId id = 0; id < 6; ++id) add_idle(id, client(absl::StrCat("client/", id)), id);
  shares_.touch(3, 200);
  EXPECT_TRUE(is_refused(client("client/3"), 1000 * kSecond));
}

TEST_F(ChannelSharesTest, PendingOnesAreSafeUntilTheirDeadline) {
  for (PeerId id = 0; id < 6; ++id) add(id, client(absl::StrCat("client/", id)), id);
  EXPECT_TRUE(is_refused(client("client/new"), kDeadline - 1));
  EXPECT_EQ(victim(client("client/new"), kDeadline).value(), 0u);
  shares_.touch(0, 6);  // its opener asks again
  EXPECT_TRUE(is_refused(client("client/new"), kDeadline));
  shares_.prove(1);
  EXPECT_EQ(victim(client("client/new"), kDeadline + 2).value(), 2u);
}

TEST_F(ChannelSharesTest, AtItsLimitAPrincipalLosesPendingOnesOfItsOwn) {
  add(0, client("client/b"), 0);
  for (PeerId id = 1; id < 4; ++id) add(id, client("client/a"), id);
  EXPECT_EQ(victim(client("client/a"), 2 * kDeadline).value(), 1u);
}

TEST_F(ChannelSharesTest, WhatLooksIdleIsAskedForOnce) {
  for (PeerId id = 0; id < 3; ++id) {
    add_idle(id, client("client/a"), id);
    in_use_.insert(id);
  }
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(is_refused(client("client/a")));
  EXPECT_EQ(questions_, 3);
  in_use_.clear();
  shares_.rest(2, 50);
  EXPECT_EQ(victim(client("client/a")).value(), 2u);
}

// --- The dumb twin: a list of channels, looked through for every answer ---------------------------------------------

struct Known {
  PeerId id = kNoPeer;
  ChannelHolder holder;
  enum class State : uint8_t { kPending, kHeld, kIdle } state = State::kHeld;
  TimeNs since = 0;
  bool in_use = false;
};

bool is_same(const ChannelHolder& a, const ChannelHolder& b) {
  return a.kind == b.kind && a.principal == b.principal && a.source == b.source;
}

class Twin {
 public:
  explicit Twin(const ChannelLimits& limits) : limits_(limits) {}

  std::vector<Known> all;

  Known* find(PeerId id) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Known& known) { return known.id == id; });
    return found == all.end() ? nullptr : &*found;
  }
  /// kNoPeer: there is room. Nothing: refused.
  std::optional<PeerId> victim_for(const ChannelHolder& holder, TimeNs now) {
    const auto is_own = [&](const Known& known) { return is_same(known.holder, holder); };
    const auto held = static_cast<uint32_t>(std::count_if(all.begin(), all.end(), is_own));
    const bool is_at_limit = holder.kind != ChannelHolder::Kind::kOwnDials &&
                             held >= (holder.may_have_reserved ? limits_.per_node : limits_.per_principal);
    const uint32_t limit = limits_.channels_max - (holder.may_have_reserved ? 0 : limits_.reserved);
    if (!is_at_limit && all.size() < limit) return kNoPeer;
    // The idle ones are asked for in their order, up to the first that is not in use.
    const auto is_idle = [&](const Known& k) { return is_own(k) && k.state == Known::State::kIdle; };
    while (Known* idle = first_of(is_idle)) {
      if (!idle->in_use) return idle->id;
      idle->state = Known::State::kHeld;
    }
    const Known* pending = first_of([&](const Known& k) {
      return k.state == Known::State::kPending && (!is_at_limit || is_own(k)) && now - k.since >= limits_.pending_ns;
    });
    if (pending != nullptr) return pending->id;
    const auto is_anyones = [](const Known& k) { return k.state == Known::State::kIdle; };
    while (Known* idle = is_at_limit ? nullptr : first_of(is_anyones)) {
      const auto count = std::count_if(all.begin(), all.end(),
                                       [&](const Known& known) { return is_same(known.holder, idle->holder); });
      if (static_cast<uint32_t>(count) <= held) break;
      if (!idle->in_use) return idle->id;
      idle->state = Known::State::kHeld;
    }
    return std::nullopt;
  }

 private:
  /// The one that waits longest.
  Known* first_of(const std::function<bool(const Known&)>& is) {
    Known* first = nullptr;
    for (Known& known : all) {
      if (is(known) && (first == nullptr || known.since < first->since)) first = &known;
    }
    return first;
  }

  const ChannelLimits limits_;
};

TEST(ChannelSharesTwin, Agrees) {
  const ChannelLimits limits{.channels_max = 24, .reserved = 6, .per_principal = 5, .per_node = 4, .pending_ns = 40};
  ChannelShares shares(limits);
  Twin twin(limits);
  Rng rng(7);
  TimeNs now = 0;
  int refusals = 0;
  int victims = 0;
  const auto some_holder = [&]() -> ChannelHolder {
    const uint64_t who = rng.below(12);
    if (who == 0) return {};
    if (who < 4) return node(absl::StrCat("node/", who));
    if (who < 6) return stranger(who);
    return client(absl::StrCat("client/", who));
  };
  const auto end = [&](PeerId id) {
    shares.remove(id);
    std::erase_if(twin.all, [id](const Known& known) { return known.id == id; });
  };
  for (int step = 0; step < 50'000; ++step) {
    ++now;  // no two channels have waited equally long
    Known* const known = twin.all.empty() ? nullptr : &twin.all[rng.below(twin.all.size())];
    const uint64_t what = rng.below(8);
    if (what < 3) {
      const ChannelHolder holder = some_holder();
      const auto is_in_use = [&](PeerId id) { return twin.find(id)->in_use; };
      const absl::StatusOr<PeerId> victim = shares.victim_for(holder, now, is_in_use);
      const std::optional<PeerId> wanted = twin.victim_for(holder, now);
      ASSERT_EQ(victim.ok(), wanted.has_value()) << "step " << step;
      refusals += victim.ok() ? 0 : 1;
      if (!victim.ok()) continue;
      ASSERT_EQ(*victim, *wanted) << "step " << step;
      victims += *victim == kNoPeer ? 0 : 1;
      if (*victim != kNoPeer) end(*victim);
      PeerId id = 0;
      while (twin.find(id) != nullptr) ++id;
      const bool is_pending = holder.kind != ChannelHolder::Kind::kOwnDials;
      shares.add(id, holder, is_pending, now);
      twin.all.push_back({.id = id,
                          .holder = holder,
                          .state = is_pending ? Known::State::kPending : Known::State::kHeld,
                          .since = now});
    } else if (known == nullptr) {
      continue;
    } else if (what == 3) {
      shares.prove(known->id);
      if (known->state == Known::State::kPending) known->state = Known::State::kHeld;
    } else if (what == 4) {
      shares.touch(known->id, now);
      if (known->state == Known::State::kIdle) known->state = Known::State::kHeld;
      known->since = now;
    } else if (what == 5) {
      shares.rest(known->id, now);
      if (known->state == Known::State::kHeld) {
        known->state = Known::State::kIdle;
        known->since = now;
      }
    } else if (what == 6) {
      known->in_use = !known->in_use;
    } else if (rng.below(4) == 0) {
      end(known->id);
    }
    ASSERT_EQ(shares.size(), twin.all.size());
  }
  EXPECT_GT(refusals, 100);
  EXPECT_GT(victims, 100);
}

}  // namespace
}  // namespace skua::rpc
