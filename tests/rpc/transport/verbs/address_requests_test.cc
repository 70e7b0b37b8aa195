#include "rpc/transport/verbs/address_requests.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace skua::rpc::verbs {
namespace {

constexpr PeerWord kDial = PeerWord::kOwnDial;
constexpr PeerWord kClaim = PeerWord::kClaim;

struct Request {
  std::shared_ptr<int> handle;
};

class AddressRequestsTest : public testing::Test {
 protected:
  bool push(PeerWord word, int number) {
    held_.push_back(std::make_shared<int>(number));
    return requests_.push(word, {held_.back()});
  }
  /// -1: there is none.
  int take() {
    const auto next = requests_.take();
    return next ? *next->handle : -1;
  }

  AddressRequests<Request> requests_;
  std::vector<std::shared_ptr<int>> held_;
};

TEST_F(AddressRequestsTest, OwnDialsGoBeforeClaims) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(push(kClaim, i));
  EXPECT_TRUE(push(kDial, 10));
  EXPECT_TRUE(push(kDial, 11));
  for (const int next : {10, 11, 0, 1, 2, -1}) EXPECT_EQ(take(), next);
  EXPECT_TRUE(requests_.empty());
}

TEST_F(AddressRequestsTest, WhatNobodyWaitsForIsSkipped) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(push(kClaim, i));
  held_[0].reset();
  held_[2].reset();
  EXPECT_EQ(take(), 1);
  EXPECT_FALSE(requests_.empty());
  EXPECT_EQ(take(), -1);
  EXPECT_TRUE(requests_.empty());
}

TEST_F(AddressRequestsTest, ClaimsLeaveRoomForOwnDials) {
  for (size_t i = 0; i < AddressRequests<Request>::kClaimsMax; ++i) ASSERT_TRUE(push(kClaim, 0));
  EXPECT_FALSE(push(kClaim, 0));
  EXPECT_TRUE(push(kDial, 1));
  held_[7].reset();
  EXPECT_TRUE(push(kClaim, 2)) << "one was given up";
  EXPECT_FALSE(push(kClaim, 3));
}

TEST(MustResolve, APendingAddressIsNotAskedForTwice) {
  const KnownHandle claimed{.pending = true, .asked_by = kClaim, .age_ns = 60 * kSecond};
  EXPECT_FALSE(must_resolve(claimed, kClaim, true));
  EXPECT_TRUE(must_resolve(claimed, kDial, true)) << "it would wait among claims";
  EXPECT_FALSE(must_resolve({.pending = true, .asked_by = kDial}, kDial, true));
  EXPECT_FALSE(must_resolve({.pending = true, .asked_by = kDial}, kClaim, true));
}

TEST(MustResolve, AClaimOfAnAddressThatFailedWaits) {
  KnownHandle failed{.failed = true, .age_ns = kClaimAgainAfter - 1};
  EXPECT_FALSE(must_resolve(failed, kClaim, true));
  EXPECT_TRUE(must_resolve(failed, kDial, true));
  failed.age_ns = kClaimAgainAfter;
  EXPECT_TRUE(must_resolve(failed, kClaim, true));
  EXPECT_TRUE(must_resolve(failed, kClaim, false)) << "packets do not go there anyway";
}

TEST(MustResolve, AWorkingAddressMayHaveMoved) {
  EXPECT_FALSE(must_resolve({.age_ns = kResolveAgainAfter - 1}, kDial, true));
  EXPECT_TRUE(must_resolve({.age_ns = kResolveAgainAfter}, kDial, true));
  EXPECT_TRUE(must_resolve({.age_ns = kResolveAgainAfter}, kClaim, true));
  EXPECT_FALSE(must_resolve({.age_ns = kResolveAgainAfter}, kClaim, false)) << "sessions use it";
}

}  // namespace
}  // namespace skua::rpc::verbs
