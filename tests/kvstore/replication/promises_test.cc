#include "kvstore/replication/promises.h"

#include <gtest/gtest.h>

#include "kvstore/replication/peer_replicas.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

/// Member 2; 3 only learns.
PeerReplicas two_peers() {
  View view = testing::view_of(1, 1, {1, 2});
  view.learners = {{{3, 1}, 0}};
  PeerReplicas peers;
  peers.match(view, 1, {});
  return peers;
}

TEST(Promises, OnlyThoseToOthersThanMembersAreWaitedFor) {
  const PeerReplicas peers = two_peers();
  Promises promises;
  EXPECT_EQ(promises.end_outside(peers), 0);
  promises.give(2, 900);
  EXPECT_EQ(promises.end_outside(peers), 0) << "a commit needs its acknowledgement";
  promises.give(3, 500);
  EXPECT_EQ(promises.end_outside(peers), 500);
  promises.give(4, 700);
  promises.give(4, 600);
  EXPECT_EQ(promises.end_outside(peers), 700) << "the longer one counts";
  promises.release(4);
  EXPECT_EQ(promises.end_outside(peers), 500);
}

TEST(Promises, OfAFormerLifeCannotBeReleased) {
  Promises promises;
  promises.assume_until(800);
  promises.release(2);
  promises.drop_expired(900);
  EXPECT_EQ(promises.end_outside(two_peers()), 800);
  EXPECT_FALSE(promises.any(0)) << "it may be none";
}

TEST(Promises, End) {
  Promises promises;
  promises.give(2, 900);
  EXPECT_TRUE(promises.any(899));
  EXPECT_FALSE(promises.any(900));
  promises.drop_expired(899);
  EXPECT_TRUE(promises.any(0));
  promises.drop_expired(900);
  EXPECT_FALSE(promises.any(0));
}

}  // namespace
}  // namespace skua::kv
