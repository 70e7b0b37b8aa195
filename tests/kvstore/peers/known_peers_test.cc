#include "kvstore/peers/known_peers.h"

#include <gtest/gtest.h>

#include "kvstore/peers/peer_identity.h"
#include "kvstore/peers/peer_limits.h"

namespace skua::kv {
namespace {

constexpr char kCluster[] = "11111111-1111-4111-8111-111111111111";
constexpr char kOtherCluster[] = "22222222-2222-4222-8222-222222222222";
constexpr char kNode[] = "01020304-0506-4708-890a-0b0c0d0e0f10";
constexpr char kSameStart[] = "01020304-0506-4708-990a-0b0c0d0e0f10";  // another node, whose NodeId is the same

PeerInfo info(uint64_t incarnation, const char* address = "a:1", const char* uuid = kNode) {
  return {.uuid = uuid, .grpc_address = address, .incarnation = incarnation, .worker_count = 2};
}

rpc::EndpointIdentity identity(uint64_t incarnation, uint32_t worker, const char* cluster = kCluster,
                               const char* uuid = kNode) {
  return worker_identity(uuid, incarnation, cluster, worker).value();
}

TEST(KnownPeers, Set_TellsWhetherLinksLeadElsewhereNow) {
  KnownPeers peers(kCluster);
  const NodeId node = node_id_of(std::string(kNode));
  EXPECT_EQ(peers.set(info(2)).value(), node) << "new";
  EXPECT_EQ(peers.set(info(2)).value(), std::nullopt) << "the same";
  EXPECT_EQ(peers.set(info(1, "b:1")).value(), std::nullopt) << "older";
  EXPECT_EQ(peers.find(node)->grpc_address, "a:1") << "the older one is ignored";
  EXPECT_EQ(peers.set(info(2, "b:1")).value(), node) << "another address";
  EXPECT_EQ(peers.set(info(3, "b:1")).value(), node) << "another process";
  EXPECT_EQ(peers.set(info(1, "b:1", kSameStart)).value(), node) << "another uuid counts, whatever its incarnation";
  EXPECT_TRUE(absl::IsInvalidArgument(peers.set(info(1, "a:1", "node1")).status()));
  peers.drop(node);
  EXPECT_EQ(peers.find(node), nullptr);
}

TEST(KnownPeers, WorkerOf_NamesTheWorkerInAnyIncarnation) {
  KnownPeers peers(kCluster);
  ASSERT_TRUE(peers.set(info(2)).ok());
  for (const uint32_t worker : {0U, 1U, 2U, 300U}) {
    for (const uint64_t incarnation : {1U, 2U, 3U}) {
      const auto named = peers.worker_of(identity(incarnation, worker));
      ASSERT_TRUE(named.has_value());
      EXPECT_EQ(named->address, (PeerAddress{node_id_of(std::string(kNode)), worker}));
      EXPECT_EQ(named->is_current, worker < 2 && incarnation == 2) << worker << " in " << incarnation;
    }
  }
}

TEST(KnownPeers, WorkerOf_KnowsNoOthers) {
  KnownPeers peers(kCluster);
  EXPECT_FALSE(peers.worker_of(identity(2, 0)).has_value());
  ASSERT_TRUE(peers.set(info(2)).ok());
  EXPECT_FALSE(peers.worker_of(identity(2, 0, kOtherCluster)).has_value());
  EXPECT_FALSE(peers.worker_of(identity(2, 0, kCluster, kSameStart)).has_value());
}

TEST(KnownPeers, Check_BoundsWorkersByWhatIsKnown) {
  KnownPeers peers(kCluster);
  const NodeId node = node_id_of(std::string(kNode));
  EXPECT_TRUE(absl::IsNotFound(peers.check({node, 0})));
  ASSERT_TRUE(peers.set(info(2)).ok());
  EXPECT_TRUE(peers.check({node, 1}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(peers.check({node, 2})));
  PeerInfo unknown = info(2);
  unknown.worker_count = 0;
  ASSERT_TRUE(peers.set(unknown).ok());
  EXPECT_TRUE(peers.check({node, kPeerWorkersMax - 1}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(peers.check({node, kPeerWorkersMax})));
}

}  // namespace
}  // namespace skua::kv
