#include "kvstore/node/node_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

const control::Identity kCertificate{.cluster_id = "cluster-1", .role = control::Role::kNode, .name = "node-1"};

std::string refusal(const std::string& node_uuid, const std::string& cluster_id) {
  return check_node_identity("/data", node_uuid, cluster_id, kCertificate).ToString();
}

TEST(NodeIdentity, ANewDirectoryTakesAnyCertificate) {
  EXPECT_TRUE(check_node_identity("/data", "", "", kCertificate).ok());
  EXPECT_TRUE(check_node_identity("/data", "node-1", "", kCertificate).ok()) << "it has joined no cluster yet";
  EXPECT_TRUE(check_node_identity("/data", "node-1", "cluster-1", kCertificate).ok());
}

TEST(NodeIdentity, ACertificateOfAnotherNodeOrClusterIsRefused) {
  EXPECT_THAT(refusal("node-2", "cluster-1"), HasSubstr("/data is that of node node-2, and --cert is that of node "));
  EXPECT_THAT(refusal("node-2", "cluster-1"), HasSubstr("skuactl cert issue node node-2"));
  EXPECT_THAT(refusal("node-1", "cluster-2"),
              HasSubstr("belongs to cluster cluster-2, and --cert to cluster cluster-1"));
}

}  // namespace
}  // namespace skua::kv
