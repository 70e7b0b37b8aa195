#include "kvstore/peers/peer_notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace skua::kv {
namespace {

using Kind = PeerNotices::Kind;
using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::pair<Kind, uint32_t>> told(PeerNotices& notices) {
  std::vector<std::pair<Kind, uint32_t>> out;
  notices.tell_all([&](const PeerNotices::Notice& notice) { out.emplace_back(notice.kind, notice.peer.worker); });
  return out;
}

TEST(PeerNotices, TheSameNewsIsToldOnce_UnlessOthersCameBetween) {
  PeerNotices notices;
  const PeerAddress one{1, 1};
  const PeerAddress two{1, 2};
  notices.add(Kind::kFailed, one);
  notices.add(Kind::kFailed, two);
  notices.add(Kind::kFailed, one);
  EXPECT_FALSE(notices.empty());
  EXPECT_THAT(told(notices), ElementsAre(Pair(Kind::kFailed, 1), Pair(Kind::kFailed, 2)));
  EXPECT_TRUE(notices.empty());
  notices.add(Kind::kFailed, one);
  notices.add(Kind::kReady, one);
  notices.add(Kind::kFailed, one);
  EXPECT_THAT(told(notices), ElementsAre(Pair(Kind::kFailed, 1), Pair(Kind::kReady, 1), Pair(Kind::kFailed, 1)));
}

TEST(PeerNotices, WhatComesMeanwhileWaits) {
  PeerNotices notices;
  notices.add(Kind::kReady, {1, 1});
  notices.tell_all([&](const PeerNotices::Notice&) { notices.add(Kind::kRoom, {1, 2}); });
  EXPECT_THAT(told(notices), ElementsAre(Pair(Kind::kRoom, 2)));
}

}  // namespace
}  // namespace skua::kv
