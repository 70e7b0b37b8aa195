// The authority of the certificate service ends, too.
#include "control/security/certificate_issuer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skua::control {
namespace {

using testing::HasSubstr;

constexpr const char* kCluster = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr WallSeconds kNow = 1'800'000'000;
constexpr WallSeconds kDay = 86'400;
constexpr WallSeconds kEnd = kNow + 100 * kDay;

class IssuerTest : public testing::Test {
 protected:
  const CertificateAndKey authority_ = *make_authority(kCluster, {kNow, kEnd});
  const CertificateIssuer issuer_{authority_, *inspect_certificate(authority_.certificate), 30 * kDay};
  const std::string request_ = *make_certificate_request(*make_private_key());
  const Identity app_{kCluster, Role::kClient, "app-7"};
};

TEST_F(IssuerTest, CertificatesEndWithTheAuthorityAtTheLatest) {
  EXPECT_EQ(inspect_certificate(*issuer_.issue(request_, app_, kNow))->valid.until, kNow + 30 * kDay);
  EXPECT_EQ(inspect_certificate(*issuer_.issue(request_, app_, kEnd - kDay))->valid.until, kEnd);
}

TEST_F(IssuerTest, AnAuthorityThatHasExpiredIssuesNothing) {
  for (const WallSeconds now : {kEnd, kEnd + 1, kEnd + 1000 * kDay}) {
    const auto made = issuer_.issue(request_, app_, now);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("the authority expired at 2027-04-25"));
  }
}

TEST_F(IssuerTest, TroubleBeginsWhenCertificatesWouldOutliveTheAuthority) {
  EXPECT_EQ(issuer_.trouble(kNow), "");
  EXPECT_EQ(issuer_.trouble(kEnd - 30 * kDay), "");
  EXPECT_THAT(issuer_.trouble(kEnd - 30 * kDay + 1), HasSubstr("the authority expires at 2027-04-25"));
  EXPECT_THAT(issuer_.trouble(kEnd - 1), HasSubstr("Replace it before"));
  EXPECT_THAT(issuer_.trouble(kEnd), HasSubstr("nobody joins or renews"));
}

}  // namespace
}  // namespace skua::control
