#include "kvstore/peers/peer_identity.h"

#include <gtest/gtest.h>

#include <set>

namespace skua::kv {
namespace {

constexpr char kUuid[] = "01020304-0506-4708-890a-0b0c0d0e0f10";

TEST(PeerIdentityTest, ParseUuid_TakesTheTextAsBytes) {
  const auto uuid = parse_uuid(kUuid);
  ASSERT_TRUE(uuid.ok()) << uuid.status();
  EXPECT_EQ(uuid->bytes[0], 0x01);
  EXPECT_EQ(uuid->bytes[6], 0x47);
  EXPECT_EQ(uuid->bytes[15], 0x10);
}

TEST(PeerIdentityTest, ParseUuid_RefusesOtherText) {
  for (const char* text : {"", "nonsense", "01020304-0506-4708-890a-0b0c0d0e0f1",
                           "01020304-0506-4708-890A-0B0C0D0E0F10", "01020304-0506-4708-890a-0b0c0d0e0f101"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(parse_uuid(text).status())) << text;
  }
}

TEST(PeerIdentityTest, NodeIdOf_HasTheFirstEightBytesInOrder) {
  EXPECT_EQ(node_id_of(std::string(kUuid)), 0x0102030405064708u);
  EXPECT_EQ(node_id_of(parse_uuid(kUuid).value()), 0x0102030405064708u);
  EXPECT_EQ(node_id_of(std::string("nonsense")), 0u) << "a text that is no uuid";
}

TEST(PeerIdentityTest, WorkerIdentity_DiffersForEachWorkerAndNamesTheCluster) {
  std::set<std::string> seen;
  for (const uint32_t worker : {0u, 1u, 2u, 255u, 256u}) {
    const auto identity = worker_identity(kUuid, 7, kUuid, worker);
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_EQ(identity->incarnation, 7u);
    EXPECT_EQ(identity->cluster_id, parse_uuid(kUuid).value());
    EXPECT_EQ(node_id_of(identity->uuid), node_id_of(std::string(kUuid))) << "of one node";
    seen.emplace(identity->uuid.bytes.begin(), identity->uuid.bytes.end());
  }
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(worker_identity(kUuid, 7, "", 0)->uuid, parse_uuid(kUuid).value()) << "worker 0 has the node's own";
  EXPECT_EQ(worker_identity(kUuid, 7, "", 258)->uuid.to_string(), "01020304-0506-4708-890a-0b0c0d0e0e12");
  EXPECT_TRUE(worker_identity(kUuid, 7, "", 0)->cluster_id.is_zero());
}

TEST(PeerIdentityTest, WorkerIdentity_RefusesWhatIsNoUuid) {
  EXPECT_TRUE(absl::IsInvalidArgument(worker_identity("x", 1, kUuid, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(worker_identity(kUuid, 1, "x", 0).status()));
}

}  // namespace
}  // namespace skua::kv
