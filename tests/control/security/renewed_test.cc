// Who gets another certificate from the control plane, and what stands in it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "control/client/admin_client.h"
#include "control/client/join_client.h"
#include "control/proto/certificates.grpc.pb.h"
#include "control/security/certificates.h"
#include "control/security/credentials.h"
#include "control/server/own_certificate.h"
#include "rpc/base/clock.h"
#include "tests/control/certificate_office.h"
#include "tests/control/security/joining.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;

/// JoiningTest by another name: its cases are of one subject.
class RenewedTest : public JoiningTest {};

TEST_F(RenewedTest, ACertificateIsRenewedForItsOwnerAndHisKey) {
  ASSERT_TRUE(join_with(token("client", "app-7").token, "app").ok());
  const std::string before = text_of(files("app").certificate);
  AdminClient app(address_, 20 * kSecond, loaded(files("app")));
  const auto renewed = renew(files("app"), true, app);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->identity->name, "app-7");
  EXPECT_NE(text_of(files("app").certificate), before);
  EXPECT_NE(loaded(files("app")), nullptr) << "the key is the same";

  ASSERT_TRUE(admin_->revoke_identity("client/app-7").ok());
  EXPECT_EQ(renew(files("app"), true, app).status().code(), StatusCode::kPermissionDenied);
  // The control plane's own come from where the authority is.
  AdminClient control(address_, 20 * kSecond, loaded(office_.issue(Role::kControl, "c1")));
  EXPECT_EQ(control.renew_certificate(*make_certificate_request(*make_private_key())).status().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(RenewedTest, ARenewedCertificateNamesTheHostsOfTheOneBefore) {
  const WallSeconds now = std::time(nullptr);
  const std::vector<std::string> hosts = {"n1.example.com", "*.skua.svc", "10.0.0.7", "fd00::7"};
  const CredentialFiles own = office_.issue(Role::kNode, kNode, {now, now + 500}, hosts);
  AdminClient node(address_, 20 * kSecond, loaded(own));
  const auto renewed = renew(own, true, node);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->hosts, hosts);
  // Whoever joins names none: its token gives an identity, and no host.
  const auto joined = join_with(token("node", "").token, "n");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(joined->hosts, IsEmpty());
}

/// While one authority is replaced by another, both are believed. What the old one has signed must not live on in the new
/// one unless the operator says so: whoever stole the old one's key could sign for anybody.
TEST_F(RenewedTest, ACertificateOfAnotherAuthorityIsNotRenewedIntoThisOne_UnlessThatIsReplaced) {
  CertificateOffice old(directory_.path(), "old");
  old.trusted = office_.certificate() + old.certificate();
  const CredentialFiles own = old.issue(Role::kClient, "app");
  const CredentialFiles boss = old.issue(Role::kAdmin, "eve");
  start(true, "", old.certificate());
  AdminClient app(address_, 20 * kSecond, loaded(own));
  AdminClient eve(address_, 20 * kSecond, loaded(boss));
  EXPECT_TRUE(app.list_tables().ok()) << "it is believed";
  const absl::Status refused = renew(own, true, app).status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--replaced-authority"));
  EXPECT_EQ(eve.create_join_token("admin", "eve2", 0).status().code(), StatusCode::kPermissionDenied)
      << "a token is a way to a certificate, too";

  start(true, old.certificate(), old.certificate());
  AdminClient again(address_, 20 * kSecond, loaded(own));
  const auto moved = renew(own, true, again);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(check_signed_by(text_of(own.certificate), office_.certificate(), std::time(nullptr)).ok());
  EXPECT_FALSE(check_signed_by(text_of(own.certificate), old.certificate(), std::time(nullptr)).ok());
}

TEST_F(RenewedTest, ANewKeyTakesANewToken) {
  const CredentialFiles own = office_.issue(Role::kClient, "app");
  AdminClient app(address_, 20 * kSecond, loaded(own));
  const absl::Status refused = app.renew_certificate(*make_certificate_request(*make_private_key())).status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a new key takes a new join token"));
  EXPECT_TRUE(app.renew_certificate(*make_certificate_request(text_of(own.key))).ok());
}

/// A connection outlives the certificate that was shown when it was made.
TEST_F(RenewedTest, AnExpiredCertificateIsNotRenewed) {
  const WallSeconds now = std::time(nullptr);
  const CredentialFiles own = office_.issue(Role::kClient, "app", {now - 10, now + 3});
  const auto channel = grpc::CreateChannel(address_, loaded(own)->for_channel(Role::kControl));
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(3)));
  v1::RenewRequest request;
  request.set_request(*make_certificate_request(text_of(own.key)));
  EXPECT_TRUE(eventually([&] {
    v1::IssuedCertificate reply;
    grpc::ClientContext context;
    const grpc::Status refused = v1::Certificates::NewStub(channel)->Renew(&context, request, &reply);
    return refused.error_code() == grpc::StatusCode::PERMISSION_DENIED &&
           refused.error_message().find("has expired") != std::string::npos;
  }));
}

TEST_F(RenewedTest, OneIdentityGetsNotMoreThanAFewInAMinute) {
  const CredentialFiles own = office_.issue(Role::kClient, "app");
  const CredentialFiles others = office_.issue(Role::kClient, "other");
  AdminClient app(address_, 20 * kSecond, loaded(own));
  const std::string request = *make_certificate_request(text_of(own.key));
  absl::Status last;
  for (int i = 0; i < 100 && last.ok(); ++i) last = app.renew_certificate(request).status();
  EXPECT_EQ(last.code(), StatusCode::kResourceExhausted);
  AdminClient other(address_, 20 * kSecond, loaded(others));
  EXPECT_TRUE(other.renew_certificate(*make_certificate_request(text_of(others.key))).ok());
}

TEST_F(RenewedTest, TheControlPlaneRenewsItsOwn_ByTheAuthorityThatItHas) {
  const WallSeconds now = std::time(nullptr);
  const std::vector<std::string> hosts = {"control.example.com", "10.0.0.1"};
  const CredentialFiles own = office_.issue(Role::kControl, "c1", {now - 1000, now + 500}, hosts);
  const CredentialsPtr credentials = loaded(own);
  auto issuer = CertificateIssuer::make(office_.authority(), kLife, *credentials, now);
  ASSERT_TRUE(issuer.ok()) << issuer.status();
  std::atomic<bool> renewed = false;
  const auto renewer =
      keep_own_fresh(own, credentials, *issuer, [&](bool warning, const std::string&) { renewed = !warning; });
  ASSERT_TRUE(eventually([&] { return renewed.load(); }));
  const auto info = inspect_certificate(text_of(own.certificate));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->identity, (Identity{kOfficeCluster, Role::kControl, "c1"}));
  EXPECT_EQ(info->hosts, hosts);
  EXPECT_GT(info->valid.until, now + 500);
  EXPECT_EQ(text_of(own.authorities), office_.certificate());
  EXPECT_NE(loaded(own), nullptr) << "the key is the same";
}

}  // namespace
}  // namespace skua::control
