// Certificates for keys that never leave their owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "control/security/certificates.h"

namespace skua::control {
namespace {

constexpr const char* kCluster = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kOther = "11111111-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr WallSeconds kNow = 1'800'000'000;
constexpr WallSeconds kDay = 86'400;

class CertificateRequests : public testing::Test {
 protected:
  [[nodiscard]] absl::StatusOr<std::string> sign(const std::string& request, const Identity& identity,
                                                 WallSeconds until = kNow + kDay) const {
    return sign_certificate_request(authority_, request, identity, {kNow, until});
  }

  const CertificateAndKey authority_ = *make_authority(kCluster, {kNow, kNow + 100 * kDay});
  const std::string key_ = *make_private_key();
  const std::string request_ = *make_certificate_request(key_);
  const Identity app_{kCluster, Role::kClient, "app-7"};
};

TEST_F(CertificateRequests, GiveACertificateThatGoesWithTheKey) {
  const auto made = sign(request_, app_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(check_credentials({*made, key_}, authority_.certificate, kNow).ok());
  const auto info = inspect_certificate(*made);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->identity, app_);
  EXPECT_FALSE(check_credentials({*made, *make_private_key()}, authority_.certificate, kNow).ok());
}

TEST_F(CertificateRequests, TheCertificateNeverOutlivesTheAuthority) {
  const auto made = sign(request_, app_, kNow + 1000 * kDay);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(inspect_certificate(*made)->valid.until, kNow + 100 * kDay);
}

TEST_F(CertificateRequests, KnowAKeyAgainAndTellTwoApart) {
  const auto one = inspect_certificate_request(request_);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->size(), 64u);
  EXPECT_EQ(*inspect_certificate_request(*make_certificate_request(key_)), *one)
      << "the signature differs, not the key";
  EXPECT_NE(*inspect_certificate_request(*make_certificate_request(*make_private_key())), *one);
}

/// Whoever saw a request, or only the public key, gets no certificate for another's key by changing it.
TEST_F(CertificateRequests, EachBitCounts) {
  for (size_t bit = 0; bit < request_.size() * 8; ++bit) {
    std::string other = request_;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(inspect_certificate_request(other).ok()) << bit;
    EXPECT_FALSE(sign(other, app_).ok()) << bit;
  }
}

TEST_F(CertificateRequests, OtherBytesAreRefused) {
  for (size_t size = 0; size < request_.size(); ++size) {
    EXPECT_FALSE(inspect_certificate_request(request_.substr(0, size)).ok()) << size;
  }
  for (const std::string& bytes : {request_ + std::string(1, '\0'), request_ + request_,
                                   std::string(kCertificateRequestMax + 1, '\x30'), key_, authority_.certificate}) {
    const auto refused = inspect_certificate_request(bytes);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(make_certificate_request("no key").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificateRequests, NothingIsSignedForAnotherClusterOrByWhoIsNoAuthority) {
  EXPECT_FALSE(sign(request_, {kOther, Role::kClient, "app-7"}).ok());
  EXPECT_FALSE(sign(request_, {kCluster, Role::kNode, "app-7"}).ok());
  const std::string leaf = *sign(request_, app_);
  EXPECT_FALSE(sign_certificate_request({leaf, key_}, request_, app_, {kNow, kNow + kDay}).ok());
}

TEST_F(CertificateRequests, AreForRenewalAtHalfOfTheirTime) {
  for (const WallSeconds life : {WallSeconds{10}, 3 * kDay, 30 * kDay}) {
    const auto info = inspect_certificate(*sign(request_, app_, kNow + life));
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(renewal_time(*info), kNow + life / 2);
    EXPECT_EQ(expiry_trouble(*info, renewal_time(*info)), "") << "there is time to try again before anybody is told";
  }
}

}  // namespace
}  // namespace skua::control
