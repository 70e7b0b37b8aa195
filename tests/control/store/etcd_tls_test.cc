// An etcd that speaks TLS: who gets through to it, and what is said to who does not.
#include "control/store/etcd_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "control/store/etcd_store.h"
#include "tests/control/certificate_office.h"
#include "tests/control/etcd_process.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

const char* const kHere = "127.0.0.1";

class EtcdTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdProcess::is_installed()) GTEST_SKIP() << kNoEtcd;
  }
  CredentialFiles for_etcd(const std::string& host = kHere) {
    return office_.issue(Role::kControl, "etcd", {office_.now(), office_.now() + CertificateOffice::kDay}, {host});
  }
  static EtcdTlsFiles files_of(const CredentialFiles& files) {
    return {files.authorities, files.certificate, files.key};
  }
  static absl::StatusOr<std::unique_ptr<EtcdStore>> open(const EtcdProcess& etcd, const EtcdTlsFiles& files,
                                                         DurationNs timeout_ns = kGenerous) {
    return EtcdStore::open({.address = etcd.address("p"), .tls = files, .open_timeout_ns = timeout_ns});
  }
  /// Why an etcd that is there cannot be used, as a user is told.
  static std::string refusal(const EtcdProcess& etcd, const EtcdTlsFiles& files) {
    const auto store = open(etcd, files, 500 * kMillisecond);
    EXPECT_EQ(store.status().code(), StatusCode::kUnavailable) << store.status();
    return explain_etcd_tls(std::string(store.status().message()), !files.certificate.empty());
  }

  TempDir dir_;
  CertificateOffice office_{dir_.path(), "office"};
  CertificateOffice stranger_{dir_.path(), "stranger"};
};

TEST_F(EtcdTlsTest, WithACertificateThatItWants) {
  EtcdProcess etcd(for_etcd(), true);
  const EtcdTlsFiles files = files_of(office_.issue(Role::kControl, "c1"));
  const auto store = open(etcd, files);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->transact({{}, {Operation::put("a", "1")}, {}}).ok());
  EXPECT_EQ((*store)->get("a")->kv->value, "1");
  EXPECT_THAT(refusal(etcd, {.authorities = files.authorities}), HasSubstr("give --etcd-cert and --etcd-key"));
  const CredentialFiles other = stranger_.issue(Role::kControl, "c1");
  EXPECT_THAT(refusal(etcd, {files.authorities, other.certificate, other.key}), HasSubstr("--trusted-ca-file"));
}

TEST_F(EtcdTlsTest, WithoutOneWhereItWantsNone) {
  EtcdProcess etcd(for_etcd(), false);
  const std::string authorities = office_.issue(Role::kControl, "c1").authorities;
  ASSERT_TRUE(open(etcd, {.authorities = authorities}).ok());
  EXPECT_THAT(refusal(etcd, {.authorities = stranger_.issue(Role::kControl, "c1").authorities}),
              HasSubstr("No authority in --etcd-ca has signed"));
}

TEST_F(EtcdTlsTest, ItsCertificateMustNameTheHost) {
  EtcdProcess etcd(for_etcd("etcd.example.org"), false);
  const std::string authorities = office_.issue(Role::kControl, "c1").authorities;
  EXPECT_TRUE(eventually([&] {
    return refusal(etcd, {.authorities = authorities}).find("does not name the host in --metadata") !=
           std::string::npos;
  }));
}

TEST(EtcdTls, Check_SaysWhichFileLacks) {
  EXPECT_THAT(std::string(check_etcd_tls({}).message()), HasSubstr("etcds:// needs --etcd-ca"));
  EXPECT_THAT(std::string(check_etcd_tls({"ca", "cert", ""}).message()), HasSubstr("go together"));
  EXPECT_EQ(check_etcd_tls({.authorities = "/no/such"}).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace skua::control
