// Certificates from the control plane, over real connections: join tokens, renewal, and whoever wants one and may not.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "control/client/admin_client.h"
#include "control/client/certificate_renewer.h"
#include "control/client/join_client.h"
#include "control/proto/certificates.grpc.pb.h"
#include "control/security/audit_log.h"
#include "control/security/auditor.h"
#include "control/security/certificate_files.h"
#include "control/security/certificate_issuer.h"
#include "control/security/join_token.h"
#include "control/server/control_server.h"
#include "control/store/election.h"
#include "control/store/embedded_store.h"
#include "control/store/memory_store.h"
#include "rpc/base/clock.h"
#include "tests/control/certificate_office.h"
#include "tests/control/fake_probe.h"
#include "tests/control/odd_certificate.h"
#include "tests/control/security/joining.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// Somebody else leads for ever.
class NotElected final : public Election {
 public:
  void start(const std::string& /*own_address*/, std::function<void(const Leadership&)> /*changed*/) override {}
  void stop() override {}
};

TEST_F(JoiningTest, ATokenGivesACertificateThatIsGoodInTheCluster) {
  const JoinTokenSummary made = token("client", "app-7");
  EXPECT_EQ(made.principal, "client/app-7");
  const auto joined = join_with(made.token, "app");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->identity, (Identity{kOfficeCluster, Role::kClient, "app-7"}));
  EXPECT_NEAR(static_cast<double>(joined->valid.until), static_cast<double>(std::time(nullptr) + kLife), 60);
  AdminClient app(address_, 20 * kSecond, loaded(files("app")));
  EXPECT_TRUE(app.list_tables().ok());
  EXPECT_EQ(app.drop_table("t").status().code(), StatusCode::kPermissionDenied) << "the role's rights, and no more";

  struct stat key {};
  ASSERT_EQ(::stat(files("app").key.c_str(), &key), 0);
  EXPECT_EQ(key.st_mode & 0777U, 0600U);
}

TEST_F(JoiningTest, ANodeGetsAFreshUuid_OrTheOneThatItHas) {
  const auto fresh = join_with(token("node", "").token, "n1", "node");
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(fresh->identity->role, Role::kNode);
  const auto known = join_with(token("node", kNode).token, "n2", "node", kNode);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->identity->name, kNode);
  const auto other = join_with(token("node", "").token, "n3", "node", kNode);
  EXPECT_EQ(other.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr(absl::StrCat("skuactl cert join-token node ", kNode)));
  EXPECT_FALSE(std::filesystem::exists(files("n3").certificate));
}

TEST_F(JoiningTest, ATokenOfAnotherClusterIsRefused_AndStaysGood) {
  const std::string word = token("client", "app-7").token;
  const auto refused =
      join({.control_address = address_, .token = word, .cluster_id = kNode, .timeout_ns = 20 * kSecond}, files("app"));
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_TRUE(join_with(word, "other").ok());
}

TEST_F(JoiningTest, ATokenIsForOneKey_AlsoAfterARestartOfTheControlPlane) {
  const std::string word = token("client", "app-7").token;
  ASSERT_TRUE(join_with(word, "app").ok());
  EXPECT_TRUE(join_with(word, "app").ok()) << "the answer may have been lost";
  const absl::Status thief = join_with(word, "thief").status();
  EXPECT_EQ(thief.code(), StatusCode::kPermissionDenied);
  start();
  EXPECT_EQ(join_with(word, "thief").status(), thief);
  EXPECT_TRUE(join_with(word, "app").ok());
}

TEST_F(JoiningTest, AStrangerHearsTheSameWhateverIsWrong) {
  const std::string used = token("client", "a").token;
  ASSERT_TRUE(join_with(used, "a").ok());
  const std::string revoked = token("client", "b").token;
  ASSERT_TRUE(admin_->revoke_identity("client/b").ok());
  const JoinTokenSummary dropped = token("client", "c");
  ASSERT_TRUE(admin_->drop_join_token(dropped.token_id).ok());
  auto unknown = *parse_join_token(used);
  unknown.secret = std::string(kJoinSecretBytes, 'x');
  const absl::Status refused = join_with(encode_join_token(unknown), "eve").status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  for (const std::string& word : {used, revoked, dropped.token}) EXPECT_EQ(join_with(word, "eve").status(), refused);
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("client")));
}

TEST_F(JoiningTest, NothingIsSaidToWhoeverIsNotTheTokensControlPlane) {
  auto other = *parse_join_token(token("client", "a").token);
  other.authority[0] = static_cast<char>(other.authority[0] ^ 1);
  const absl::Status refused = join_with(encode_join_token(other), "a").status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("secret was not sent"));
  EXPECT_EQ(join_with("skua-join-x", "a").status().code(), StatusCode::kInvalidArgument);
}

/// One of several addresses may be another cluster's.
TEST_F(JoiningTest, WhoeverIsNotTheTokensControlPlaneIsPassedOver) {
  const std::string word = token("client", "app-7").token;
  CertificateOffice other(directory_.path(), "elsewhere");
  ControlServerOptions options;
  options.listen_address = "127.0.0.2:0";
  options.join_address = "127.0.0.2" + join_address_.substr(join_address_.rfind(':'));
  options.cluster.id = kOfficeCluster;
  options.credentials = loaded(other.issue(Role::kControl, "c9"));
  options.issuer = *CertificateIssuer::make(other.authority(), kLife, *options.credentials, std::time(nullptr));
  const auto stranger = ControlServer::start(options, std::make_unique<MemoryStore>());
  ASSERT_TRUE(stranger.ok()) << stranger.status();
  const auto join_at = [&](const std::string& addresses) {
    return join({.control_address = addresses, .token = word, .timeout_ns = 20 * kSecond}, files("app")).status();
  };
  // What was said first stays, though the last address is nobody's.
  EXPECT_EQ(join_at("127.0.0.2:1,127.0.0.3:1").code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(join_at("127.0.0.2:1,127.0.0.1:1").ok());
}

TEST_F(JoiningTest, StrangersAreServedNothingElse) {
  const auto channel =
      grpc::CreateChannel(join_address_, joining_channel_credentials(office_.certificate(), kOfficeCluster));
  v1::CreateJoinTokenReply made;
  grpc::ClientContext create;
  EXPECT_EQ(
      v1::Certificates::NewStub(channel)->CreateJoinToken(&create, v1::CreateJoinTokenRequest(), &made).error_code(),
      grpc::StatusCode::UNIMPLEMENTED);
  // And where the others are, nobody is without a certificate.
  const auto inside = grpc::CreateChannel(address_, joining_channel_credentials(office_.certificate(), kOfficeCluster));
  v1::GetAuthorityReply authority;
  grpc::ClientContext get;
  EXPECT_EQ(v1::Joining::NewStub(inside)->GetAuthority(&get, v1::GetAuthorityRequest(), &authority).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(JoiningTest, LargeMessagesAndManyAttemptsAreRefused) {
  EXPECT_EQ(raw_join(std::string(20'000, 's'), "").error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(raw_join("s", "no request").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  grpc::Status last;
  for (int i = 0; i < 200 && last.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED; ++i) last = raw_join("s", "x");
  EXPECT_EQ(last.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(last.error_message(), HasSubstr("in a minute"));
}

TEST_F(JoiningTest, TokensAreMadeByAdministratorsForIdentitiesThatThereMayBe) {
  AdminClient app(address_, 20 * kSecond, loaded(office_.issue(Role::kClient, "app")));
  EXPECT_EQ(app.create_join_token("node", "", 0).status().code(), StatusCode::kPermissionDenied);
  for (const auto& [role, name] :
       {std::pair{"control", "c2"}, {"client", ""}, {"node", "n1"}, {"boss", "x"}, {"", ""}}) {
    EXPECT_EQ(admin_->create_join_token(role, name, 0).status().code(), StatusCode::kInvalidArgument) << role << name;
  }
  EXPECT_EQ(admin_->create_join_token("client", "a", 30 * 86'400).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(*admin_->join_tokens(), IsEmpty());
  const JoinTokenSummary made = token("client", "a");
  ASSERT_THAT(*admin_->join_tokens(), SizeIs(1));
  EXPECT_EQ(admin_->join_tokens()->front().token_id, made.token_id);
  EXPECT_EQ(admin_->join_tokens()->front().token, "");
}

TEST_F(JoiningTest, ARenewerActsAtHalfTime_AndTriesAgain) {
  const WallSeconds now = std::time(nullptr);
  const CredentialFiles files = office_.issue(Role::kClient, "app", {now - 1000, now + 500});
  const std::string before = text_of(files.certificate);
  const CredentialsPtr credentials = loaded(files);
  ASSERT_TRUE(admin_->revoke_identity("client/app").ok());
  std::mutex mutex;
  std::string said;
  const auto has_said = [&](const std::string& text) {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return said.find(text) != std::string::npos;
    });
  };
  const CertificateRenewer renewer({.control_address = address_,
                                    .files = files,
                                    .credentials = credentials,
                                    .log = [&](bool warning, const std::string& line) {
                                      const std::lock_guard lock(mutex);
                                      absl::StrAppend(&said, warning ? "warning: " : "info: ", line, "\n");
                                    }});
  EXPECT_TRUE(has_said("warning: the certificate could not be renewed, it is tried again: "));
  EXPECT_TRUE(has_said("client/app is revoked"));
  EXPECT_EQ(text_of(files.certificate), before);
  ASSERT_TRUE(admin_->unrevoke_identity("client/app").ok());
  EXPECT_TRUE(has_said("info: the certificate was renewed"));
  EXPECT_NE(text_of(files.certificate), before);
  EXPECT_GT(inspect_certificate(text_of(files.certificate))->valid.until, now + 500);
}

TEST_F(JoiningTest, ARenewerGoesByTheCertificateThatIsInTheFile) {
  const CredentialFiles files = office_.issue(Role::kClient, "app");
  std::atomic<bool> renewed = false;
  const CertificateRenewer renewer({.control_address = address_,
                                    .files = files,
                                    .credentials = loaded(files),
                                    .look_again_s = 1,
                                    .log = [&](bool warning, const std::string&) { renewed = !warning; }});
  const WallSeconds now = std::time(nullptr);
  const std::string old = *sign_certificate_request(office_.authority(), *make_certificate_request(text_of(files.key)),
                                                    {kOfficeCluster, Role::kClient, "app"}, {now - 1000, now + 500});
  ASSERT_TRUE(replace_certificate_file(files.certificate, old).ok());
  EXPECT_TRUE(eventually([&] { return renewed.load(); }));
  EXPECT_GT(inspect_certificate(text_of(files.certificate))->valid.until, now + 500);
}

/// However many there are, they push no change out of the audit log's files.
TEST_F(JoiningTest, RenewalsAndRepeatedJoinsAreNoChangesOfTheCluster) {
  const std::string word = token("client", "app-7").token;
  ASSERT_TRUE(join_with(word, "app").ok());
  ASSERT_TRUE(join_with(word, "app").ok());
  AdminClient app(address_, 20 * kSecond, loaded(files("app")));
  ASSERT_TRUE(renew(files("app"), true, app).ok());
  const std::string changes = audit();
  const size_t first = changes.find("Joining/Join");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(changes.find("Joining/Join", first + 1), std::string::npos) << "the token was used once";
  EXPECT_THAT(changes, Not(HasSubstr("Certificates/Renew")));
  EXPECT_THAT(audit(".refused"), HasSubstr("Joining/Join"));
  EXPECT_THAT(audit(".refused"), HasSubstr("Certificates/Renew"));
}

TEST_F(JoiningTest, TheAuditLogSaysWhoGotWhat_AndHasNoSecret) {
  const JoinTokenSummary made = token("client", "app-7");
  const auto joined = join_with(made.token, "app");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_FALSE(join_with(made.token, "thief").ok());
  const absl::Status pasted = admin_->drop_join_token(made.token);
  EXPECT_EQ(pasted.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(pasted.message()), Not(HasSubstr(made.token)));
  EXPECT_TRUE(admin_->create_join_token("client", made.token, 0).ok()) << "a name like others, and not written";
  const std::string log = audit();
  EXPECT_THAT(log, HasSubstr("\"who\":\"admin/ada\""));
  EXPECT_THAT(log, HasSubstr("Certificates/CreateJoinToken"));
  EXPECT_THAT(log, HasSubstr("Joining/Join"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("\"token_id\":\"", made.token_id, "\"")));
  EXPECT_THAT(log, HasSubstr(joined->serial));
  EXPECT_THAT(audit(".refused"), HasSubstr("Joining/Join"));
  const std::string secret = absl::BytesToHexString(parse_join_token(made.token)->secret);
  for (const std::string& text : {audit(), audit(".refused")}) {
    EXPECT_THAT(text, Not(HasSubstr(made.token.substr(10, 30))));
    EXPECT_THAT(text, Not(HasSubstr(secret)));
    EXPECT_THAT(text, Not(HasSubstr("PRIVATE KEY")));
  }
}

/// Only the process that leads knows which tokens are good, and who is revoked.
TEST_F(JoiningTest, AProcessThatDoesNotLeadGivesNothing_AndTheNextOneIsAsked) {
  ControlServerOptions options;
  options.listen_address = "127.0.0.2:0";
  options.join_address = "127.0.0.2" + join_address_.substr(join_address_.rfind(':'));
  options.cluster.id = kOfficeCluster;
  options.credentials = loaded(office_.issue(Role::kControl, "c2"));
  options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
  options.issuer = *CertificateIssuer::make(office_.authority(), kLife, *options.credentials, std::time(nullptr));
  const auto follower = ControlServer::start(options, std::make_unique<MemoryStore>(), std::make_unique<NotElected>());
  ASSERT_TRUE(follower.ok()) << follower.status();
  const std::string word = token("client", "app-7").token;
  const auto join_at = [&](const std::string& addresses) {
    return join({.control_address = addresses, .token = word, .timeout_ns = 20 * kSecond}, files("app"));
  };
  EXPECT_EQ(join_at("127.0.0.2:1").status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(files("app").certificate));
  EXPECT_TRUE(join_at("127.0.0.2:1,127.0.0.1:1").ok());
  AdminClient app((*follower)->address(), 8 * kSecond, loaded(files("app")));
  // On a slow machine the time ends in the middle of a question.
  EXPECT_THAT(app.renew_certificate(*make_certificate_request(text_of(files("app").key))).status().code(),
              testing::AnyOf(StatusCode::kUnavailable, StatusCode::kDeadlineExceeded));
}

TEST_F(JoiningTest, WithoutAnAuthoritysKeyTheServiceNamesTheOption) {
  start(false);
  const absl::Status refused = admin_->create_join_token("node", "", 0).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--authority DIR"));
  EXPECT_EQ(admin_->renew_certificate("x").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(control_->join_address(), "");
}

TEST_F(JoiningTest, AnAuthorityThatNobodyBelievesIsRefusedAtTheStart) {
  CertificateOffice other(directory_.path(), "other");
  const CredentialsPtr own = loaded(office_.issue(Role::kControl, "c1"));
  const WallSeconds now = std::time(nullptr);
  const auto refused = CertificateIssuer::make(other.authority(), kLife, *own, now);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("skuactl cert issue control NAME"));
  EXPECT_FALSE(CertificateIssuer::make({office_.certificate(), ""}, kLife, *own, now).ok());
  EXPECT_FALSE(CertificateIssuer::make(office_.authority(), kLife, *own, now + 1000 * CertificateOffice::kDay).ok());
}

TEST_F(JoiningTest, ARenewerLeavesACertificateAloneThatCannotBeRenewed_UntilAnotherIsThere) {
  const WallSeconds now = std::time(nullptr);
  const CredentialFiles files = office_.issue(Role::kClient, "app", {now - 1000, now + 500});
  const std::string good = text_of(files.certificate);
  ASSERT_TRUE(replace_certificate_file(files.certificate, with_odd_host(good, office_.authority(), "two words")).ok());
  std::atomic<int> refused = 0;
  std::atomic<bool> renewed = false;
  std::string line;  // written before `refused`
  const CertificateRenewer renewer({.control_address = address_,
                                    .files = files,
                                    .credentials = loaded(files),
                                    .look_again_s = 1,
                                    .log = [&](bool warning, const std::string& said) {
                                      if (warning && refused == 0) line = said;
                                      if (warning) ++refused;
                                      if (!warning) renewed = true;
                                    }});
  ASSERT_TRUE(eventually([&] { return refused > 0; }));
  EXPECT_THAT(line, HasSubstr("it is tried when its file has another one: the certificate of client/app has the name "
                              "\"two words\""));
  const std::string other =
      *sign_certificate_request(office_.authority(), *make_certificate_request(text_of(files.key)),
                                {kOfficeCluster, Role::kClient, "app"}, {now - 1000, now + 500});
  ASSERT_TRUE(replace_certificate_file(files.certificate, other).ok());
  EXPECT_TRUE(eventually([&] { return renewed.load(); }));
  EXPECT_EQ(refused, 1);
}

TEST(NextRenewal, IsAtHalfTime_AndSoonAfterAFailure) {
  CertificateInfo info;
  info.valid = {1'000'000'000 - 300, 1'000'000'000 + 30 * 86'400};  // antedated by five minutes
  EXPECT_EQ(next_renewal(info, 0, 0), 1'000'000'000 + 15 * 86'400);
  const WallSeconds now = 1'000'000'000 + 15 * 86'400;
  EXPECT_EQ(next_renewal(info, 1, now), now + 1);
  EXPECT_EQ(next_renewal(info, 4, now), now + 8);
  EXPECT_EQ(next_renewal(info, 1000, now), now + 300);
  EXPECT_EQ(next_renewal(info, 3, now - 86'400), now) << "somebody put a fresh one there";
  info.valid.until = 1'000'000'000 + 20;
  EXPECT_EQ(next_renewal(info, 1000, now), now + 1) << "of a short life a small part";
}

}  // namespace
}  // namespace skua::control
