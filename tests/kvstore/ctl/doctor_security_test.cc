// The doctor's findings about certificates, over files of this test's own.
#include "kvstore/ctl/doctor_security.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/app/temp_dir.h"
#include "tests/control/odd_certificate.h"

namespace skua::kv::ctl {
namespace {

using control::CertificateAndKey;
using control::Identity;
using control::Role;
using control::WallSeconds;

constexpr WallSeconds kDay = 86'400;
constexpr WallSeconds kNow = 1'800'000'000;
const std::string kCluster = "6f4c0f0e-6bd1-4d3a-8d8a-3f6f0e5a7b11";

class DoctorSecurityTest : public ::testing::Test {
 protected:
  void issue(WallSeconds from, WallSeconds until) {
    const CertificateAndKey authority = *control::make_authority(kCluster, {kNow - 400 * kDay, kNow + 400 * kDay});
    const CertificateAndKey own =
        *control::issue_certificate(authority, Identity{kCluster, Role::kClient, "shop"}, {}, {from, until});
    plan_.files = {write("own.pem", own.certificate), write("own.key", own.key),
                   write("ca.pem", authority.certificate)};
  }
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  /// The finding of this name; one that does not exist has an empty name.
  Finding find(const std::string& name) {
    for (const Finding& finding : examine_security(plan_)) {
      if (finding.name == name) return finding;
    }
    return {};
  }

  app::TempDir folder_;
  SecurityPlan plan_{.files = {}, .now_s = kNow, .has_fast_cipher = true};
};

TEST_F(DoctorSecurityTest, WithoutCertificatesItSaysWhoIsLetIn) {
  const Finding finding = find("certificate");
  EXPECT_EQ(finding.verdict, Verdict::kWarning);
  EXPECT_NE(finding.remedy.find("skuactl cert init"), std::string::npos) << finding.remedy;
  EXPECT_NE(finding.why.find("is let in"), std::string::npos) << finding.why;
}

TEST_F(DoctorSecurityTest, ProgramsThatLetEverybodyInAreNamed) {
  EXPECT_EQ(find("cluster").name, "");
  using control::Admission;
  plan_.programs = {{"the control plane", {Admission::kLoopback}}, {"node 1b9d6bcd", {Admission::kUnsafe}}};
  EXPECT_EQ(find("cluster").verdict, Verdict::kWarning);
  EXPECT_EQ(find("cluster").detail, "OFF-UNSAFE: node 1b9d6bcd");
  plan_.programs.pop_back();
  EXPECT_EQ(find("cluster").verdict, Verdict::kOk);
  plan_.programs = {{"the control plane", {Admission::kAccept}}};
  EXPECT_EQ(find("cluster").verdict, Verdict::kWarning);
  EXPECT_EQ(find("cluster").detail, "ACCEPT: some programs take peers without certificates, too");
  plan_.programs = {{"the control plane", {Admission::kCertificates}}};
  EXPECT_EQ(find("cluster").detail, "all programs want certificates");
}

TEST_F(DoctorSecurityTest, GoodFilesAreFourGoodFindings) {
  issue(kNow - kDay, kNow + 90 * kDay);
  const std::vector<Finding> findings = examine_security(plan_);
  ASSERT_EQ(findings.size(), 4U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.name << ": " << finding.detail;
    EXPECT_EQ(finding.remedy, "") << finding.name;
  }
  EXPECT_NE(find("certificate").detail.find("client/shop, valid until"), std::string::npos)
      << find("certificate").detail;
  EXPECT_NE(find("certificate").detail.find("90 days"), std::string::npos) << find("certificate").detail;
}

TEST_F(DoctorSecurityTest, CertificateThatSoonExpiresIsAWarning) {
  issue(kNow - 90 * kDay, kNow + 3 * kDay);
  EXPECT_EQ(find("certificate").verdict, Verdict::kWarning);
  EXPECT_NE(find("certificate").remedy.find("into the same files"), std::string::npos);
}

TEST_F(DoctorSecurityTest, CertificateThatCannotBeRenewedIsAWarningThatNamesTheHost) {
  const CertificateAndKey authority = *control::make_authority(kCluster, {kNow - kDay, kNow + 90 * kDay});
  const CertificateAndKey own = *control::issue_certificate(authority, {kCluster, control::Role::kClient, "shop"}, {},
                                                            {kNow - kDay, kNow + 90 * kDay});
  plan_.files = {write("own.pem", control::with_odd_host(own.certificate, authority, "two words")),
                 write("own.key", own.key), write("ca.pem", authority.certificate)};
  EXPECT_EQ(find("certificate").verdict, Verdict::kWarning);
  EXPECT_NE(find("certificate").detail.find("\"two words\""), std::string::npos) << find("certificate").detail;
}

TEST_F(DoctorSecurityTest, CertificateThatHasExpiredIsAFailure) {
  issue(kNow - 90 * kDay, kNow - 1);
  EXPECT_EQ(find("certificate").verdict, Verdict::kFailure);
}

TEST_F(DoctorSecurityTest, KeyOfAnotherCertificateIsAFailure) {
  issue(kNow - kDay, kNow + 90 * kDay);
  const CertificateAndKey other = *control::make_authority(kCluster, {kNow - kDay, kNow + kDay});
  write("own.key", other.key);
  EXPECT_EQ(find("certificate").verdict, Verdict::kFailure);
}

TEST_F(DoctorSecurityTest, KeyThatOthersMayReadIsAWarningWithTheCommand) {
  issue(kNow - kDay, kNow + 90 * kDay);
  ASSERT_EQ(chmod(plan_.files.key.c_str(), 0640), 0);
  EXPECT_EQ(find("private key").verdict, Verdict::kWarning);
  EXPECT_EQ(find("private key").remedy, "chmod 600 " + plan_.files.key);
}

TEST_F(DoctorSecurityTest, KeyThatProgramsRefuseIsAFailure) {
  issue(kNow - kDay, kNow + 90 * kDay);
  for (const mode_t mode : {mode_t{0644}, mode_t{0660}}) {
    ASSERT_EQ(chmod(plan_.files.key.c_str(), mode), 0);
    EXPECT_EQ(find("private key").verdict, Verdict::kFailure) << mode;
    EXPECT_EQ(find("private key").remedy, "chmod 600 " + plan_.files.key);
  }
}

TEST_F(DoctorSecurityTest, ClusterThatCannotBeAskedIsNamed) {
  plan_.unasked = absl::FailedPreconditionError("the key is open");
  EXPECT_EQ(find("cluster").verdict, Verdict::kWarning);
  EXPECT_NE(find("cluster").detail.find("the key is open"), std::string::npos) << find("cluster").detail;
}

TEST_F(DoctorSecurityTest, RefusalOfTheControlPlaneIsAFailure) {
  plan_.refusal = absl::PermissionDeniedError("client/shop is revoked");
  EXPECT_EQ(find("cluster").verdict, Verdict::kFailure);
  EXPECT_NE(find("cluster").detail.find("client/shop is revoked"), std::string::npos) << find("cluster").detail;
  EXPECT_NE(find("cluster").remedy.find("skuactl cert"), std::string::npos) << find("cluster").remedy;
  for (const absl::Status& nobody : {absl::UnavailableError("refused"), absl::DeadlineExceededError("late")}) {
    plan_.refusal = nobody;
    EXPECT_EQ(find("cluster").name, "") << nobody;
  }
}

TEST_F(DoctorSecurityTest, FileThatIsMissingIsNamed) {
  issue(kNow - kDay, kNow + 90 * kDay);
  plan_.files.authorities = folder_.path() + "/nowhere.pem";
  EXPECT_EQ(find("certificate").verdict, Verdict::kFailure);
  EXPECT_NE(find("certificate").detail.find("nowhere.pem"), std::string::npos) << find("certificate").detail;
}

TEST_F(DoctorSecurityTest, FileThatIsNotGivenIsAFailure) {
  issue(kNow - kDay, kNow + 90 * kDay);
  plan_.files.key.clear();
  EXPECT_EQ(find("certificate").verdict, Verdict::kFailure);
  EXPECT_EQ(find("certificate").remedy, "give all three");
}

TEST_F(DoctorSecurityTest, AuthorityThatIsNoneIsAFailure) {
  issue(kNow - kDay, kNow + 90 * kDay);
  write("ca.pem", "garbage");
  EXPECT_EQ(find("authority").verdict, Verdict::kFailure);
  EXPECT_EQ(find("certificate").verdict, Verdict::kFailure);
}

TEST_F(DoctorSecurityTest, SlowCipherIsAWarning) {
  issue(kNow - kDay, kNow + 90 * kDay);
  plan_.has_fast_cipher = false;
  EXPECT_EQ(find("cipher").verdict, Verdict::kWarning);
}

}  // namespace
}  // namespace skua::kv::ctl
