#include "kvstore/node/node_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "control/security/certificate_files.h"
#include "control/security/certificates.h"
#include "control/security/join_token.h"
#include "tests/control/temp_dir.h"

namespace skua::kv {
namespace {

using control::CertificateAndKey;
using control::CredentialFiles;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kCluster = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kUuid = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";

class NodeCertificate : public testing::Test {
 protected:
  /// Puts a certificate into the data directory that has been good for a day, and is for another `left_s`.
  void put(control::Role role, const std::string& name, control::WallSeconds left_s) {
    const control::WallSeconds now = std::time(nullptr);
    const CertificateAndKey authority = *control::make_authority(kCluster, {now - 86'400, now + 86'400});
    const CredentialFiles files = joined_files(directory_.path());
    const std::string request = *control::make_certificate_request(*control::load_or_make_key(files.key));
    ASSERT_TRUE(control::replace_certificate_file(files.authorities, authority.certificate).ok());
    const auto certificate =
        control::sign_certificate_request(authority, request, {kCluster, role, name}, {now - 86'400, now + left_s});
    ASSERT_TRUE(certificate.ok()) << certificate.status();
    ASSERT_TRUE(control::replace_certificate_file(files.certificate, *certificate).ok());
  }

  control::TempDir directory_;
  std::vector<std::string> said_;
  const NodeLog log_ = [this](LogSeverity /*severity*/, const std::string& line) { said_.push_back(line); };
};

TEST_F(NodeCertificate, OfANewDirectoryThereIsNone) {
  EXPECT_FALSE(has_joined(directory_.path()));
  const auto loaded = load_joined(directory_.path(), false, log_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, nullptr);
}

TEST_F(NodeCertificate, IsUsedWithoutAToken_AndATokenIsNotLookedAt) {
  put(control::Role::kNode, kUuid, 3600);
  EXPECT_TRUE(has_joined(directory_.path()));
  for (const bool has_token : {false, true}) {
    const auto loaded = load_joined(directory_.path(), has_token, log_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_NE(*loaded, nullptr);
    EXPECT_EQ((*loaded)->self().name, kUuid);
  }
  EXPECT_THAT(said_, ElementsAre(HasSubstr("not needed any more")));
}

TEST_F(NodeCertificate, ThatExpired_NamesTheWayOut_AndATokenIsIt) {
  put(control::Role::kNode, kUuid, -1);
  const absl::Status expired = load_joined(directory_.path(), false, log_).status();
  EXPECT_EQ(expired.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(expired.message()), HasSubstr("skuactl cert join-token node UUID"));
  EXPECT_THAT(said_, IsEmpty());
  const auto again = load_joined(directory_.path(), true, log_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, nullptr);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("joins again")));
}

TEST_F(NodeCertificate, IsANodes) {
  put(control::Role::kClient, "app", 3600);
  EXPECT_EQ(load_joined(directory_.path(), false, log_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(NodeCertificate, ATokenIsCheckedBeforeAnythingIsMade) {
  const std::string word = control::encode_join_token({.port = 7405,
                                                       .secret = std::string(control::kJoinSecretBytes, 's'),
                                                       .authority = std::string(control::kAuthorityHashBytes, 'a')});
  EXPECT_TRUE(check_join_token("", {}).ok());
  EXPECT_TRUE(check_join_token("", {"cert", "key", "ca"}).ok());
  EXPECT_TRUE(check_join_token(word, {}).ok());
  EXPECT_THAT(std::string(check_join_token(word, {"cert", "key", "ca"}).message()), HasSubstr("leave it away"));
  EXPECT_THAT(std::string(check_join_token("word", {}).message()), HasSubstr("--join-token: "));
}

/// Nobody listens at the address: it goes on trying until the node is told to stop, and says once why.
TEST_F(NodeCertificate, WaitsForAControlPlaneThatIsAway) {
  const std::string word = control::encode_join_token({.port = 1,
                                                       .secret = std::string(control::kJoinSecretBytes, 's'),
                                                       .authority = std::string(control::kAuthorityHashBytes, 'a')});
  int pauses = 0;
  const auto joined = join_by_token({.data_dir = directory_.path(),
                                     .control_address = "127.0.0.1:7400",
                                     .token = word,
                                     .node_uuid = "",
                                     .log = log_,
                                     .pause = [&](DurationNs /*time*/) { return ++pauses < 3; }});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(*joined, nullptr);
  EXPECT_EQ(pauses, 3);
  EXPECT_FALSE(has_joined(directory_.path()));
  ASSERT_FALSE(said_.empty());
  EXPECT_THAT(said_.front(), HasSubstr("tries again"));
}

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
