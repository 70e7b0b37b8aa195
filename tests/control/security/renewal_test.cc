// Renewing a certificate at somebody who may not be the control plane.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/admin_client.h"
#include "control/client/join_client.h"
#include "control/proto/certificates.grpc.pb.h"
#include "control/security/certificate_files.h"
#include "control/security/certificates.h"
#include "control/security/credentials.h"
#include "tests/control/certificate_office.h"
#include "tests/control/temp_dir.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

/// Signs whatever it is asked for by an authority of its own, and says whom to believe.
class Answerer final : public v1::Certificates::Service {
 public:
  Answerer(CertificateAndKey authority, std::string authorities)
      : authority_(std::move(authority)), authorities_(std::move(authorities)) {}

  /// Called before each answer.
  std::function<void()> meanwhile;

  /// `credentials`: null for plain text.
  void listen(const CredentialsPtr& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", server_credentials(credentials), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  [[nodiscard]] int asked() const { return asked_; }
  [[nodiscard]] std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status Renew(grpc::ServerContext* /*context*/, const v1::RenewRequest* request,
                     v1::IssuedCertificate* reply) override {
    ++asked_;
    if (meanwhile) meanwhile();
    const WallSeconds now = CertificateOffice::now();
    reply->set_certificate(*sign_certificate_request(authority_, request->request(),
                                                     {kOfficeCluster, Role::kClient, "app"}, {now, now + 1000}));
    reply->set_authorities(authorities_);
    return grpc::Status::OK;
  }

 private:
  const CertificateAndKey authority_;
  const std::string authorities_;
  std::atomic<int> asked_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class RenewalTest : public testing::Test {
 protected:
  absl::Status renew_at(const Answerer& control, bool authorities = true) {
    auto own = Credentials::load(files_, {}, SecurityChoice::kAccept);
    EXPECT_TRUE(own.ok()) << own.status();
    AdminClient admin(control.address(), 20 * kSecond, *own);
    return renew(files_, authorities, admin).status();
  }
  void nothing_changed() {
    EXPECT_EQ(*read_certificate_file(files_.certificate), certificate_);
    EXPECT_EQ(*read_certificate_file(files_.authorities), office_.certificate());
  }

  TempDir directory_;
  CertificateOffice office_{directory_.path(), "office"};
  CertificateOffice other_{directory_.path(), "other"};
  const CredentialFiles files_ = office_.issue(Role::kClient, "app");
  const std::string certificate_ = *read_certificate_file(files_.certificate);
  const CredentialsPtr control_ = loaded(office_.issue(Role::kControl, "c1"));
};

TEST_F(RenewalTest, PlainTextIsNotTaken_WhateverSecuritySays) {
  Answerer liar(other_.authority(), other_.certificate());
  liar.listen(nullptr);
  EXPECT_FALSE(renew_at(liar).ok());
  nothing_changed();
}

TEST_F(RenewalTest, AKeyThatEverybodyMayReadIsNotUsed) {
  ASSERT_EQ(::chmod(files_.key.c_str(), 0644), 0);
  const absl::Status refused = Credentials::load(files_).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("chmod 600"));
}

TEST_F(RenewalTest, AFileThatHoldsTheKeyIsLeftAlone) {
  Answerer control(office_.authority(), office_.certificate());
  control.listen(control_);
  const std::string both = certificate_ + *read_certificate_file(files_.key);
  ASSERT_TRUE(replace_certificate_file(files_.certificate, both).ok());
  ASSERT_EQ(::chmod(files_.certificate.c_str(), 0600), 0);
  const CredentialFiles one{files_.certificate, files_.certificate, files_.authorities};
  AdminClient admin(control.address(), 20 * kSecond, loaded(one));
  EXPECT_EQ(renew(one, false, admin).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(renew(files_, false, admin).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(control.asked(), 0);
  EXPECT_EQ(*read_certificate_file(files_.certificate), both);
}

TEST_F(RenewalTest, FilesThatSomebodyChangesMeanwhileAreLeftAlone) {
  for (const std::string& path : {files_.certificate, files_.key}) {
    const std::string before = *read_certificate_file(path);
    Answerer control(office_.authority(), office_.certificate());
    control.meanwhile = [&] { EXPECT_TRUE(replace_certificate_file(path, before + "by hand").ok()); };
    control.listen(control_);
    const absl::Status left = renew_at(control);
    EXPECT_EQ(left.code(), StatusCode::kAborted) << left;
    EXPECT_EQ(*read_certificate_file(path), before + "by hand");
    ASSERT_TRUE(replace_certificate_file(path, before).ok());
    nothing_changed();
  }
}

TEST_F(RenewalTest, AListWithoutTheAuthorityThatIsBelievedIsRefused) {
  Answerer liar(other_.authority(), other_.certificate());
  liar.listen(control_);
  EXPECT_EQ(renew_at(liar).code(), StatusCode::kFailedPrecondition);
  nothing_changed();
}

TEST_F(RenewalTest, AnotherAuthorityIsBelievedFirst_AndSignsAfterwards) {
  const std::string both = office_.certificate() + other_.certificate();
  Answerer rotating(other_.authority(), both);
  rotating.listen(control_);
  const absl::Status kept = renew_at(rotating, false);
  EXPECT_EQ(kept.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(kept.message()), HasSubstr("add it there"));
  nothing_changed();

  EXPECT_EQ(renew_at(rotating).code(), StatusCode::kUnavailable);
  EXPECT_EQ(*read_certificate_file(files_.authorities), both);
  EXPECT_EQ(*read_certificate_file(files_.certificate), certificate_);
  const absl::Status renewed = renew_at(rotating);
  EXPECT_TRUE(renewed.ok()) << renewed;
  EXPECT_NE(*read_certificate_file(files_.certificate), certificate_);
}

}  // namespace
}  // namespace skua::control
