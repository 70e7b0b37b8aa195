#include "control/security/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace skua::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kCluster = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kOther = "11111111-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kNode = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";
constexpr WallSeconds kNow = 1'800'000'000;
constexpr WallSeconds kDay = 86'400;

CertificateAndKey authority(const char* cluster = kCluster) {
  auto made = make_authority(cluster, {kNow, kNow + 3650 * kDay});
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

CertificateAndKey issue(const CertificateAndKey& by, const Identity& identity, ValidTime valid = {kNow, kNow + kDay}) {
  auto made = issue_certificate(by, identity, {}, valid);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

std::string refusal(const CertificateAndKey& own, const std::string& authorities, WallSeconds now = kNow) {
  const absl::Status status = check_credentials(own, authorities, now);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}

TEST(Certificates, SayWhatTheyWereIssuedFor) {
  const CertificateAndKey ca = authority();
  const auto made =
      issue_certificate(ca, {kCluster, Role::kNode, kNode}, {"n1.example.org", "10.0.0.7", "::1"}, {kNow, kNow + kDay});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto info = inspect_certificate(made->certificate);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->identity, (Identity{kCluster, Role::kNode, kNode}));
  EXPECT_EQ(info->cluster_id, kCluster);
  EXPECT_FALSE(info->is_authority);
  EXPECT_THAT(info->hosts, ElementsAre("n1.example.org", "10.0.0.7", "::1"));
  EXPECT_EQ(info->valid.until, kNow + kDay);
  EXPECT_LE(info->valid.from, kNow) << "clocks differ";
  EXPECT_EQ(info->serial.size(), 32u);
  EXPECT_EQ(info->fingerprint.size(), 64u);
  EXPECT_TRUE(check_credentials(*made, ca.certificate, kNow).ok());
}

TEST(Certificates, OfServersOfOthersClientsOpenNothingInTheCluster) {
  const CertificateAndKey ca = authority();
  const ValidTime valid = {kNow, kNow + kDay};
  const auto made = issue_server_certificate(ca, "gateway", {"cache.example.org", "10.0.0.7"}, valid);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(check_signed_by(made->certificate, ca.certificate, kNow).ok());
  EXPECT_THAT(refusal(*made, ca.certificate), HasSubstr("not a certificate of Skua's"));
  EXPECT_FALSE(inspect_certificate(made->certificate).ok());
  const auto info = inspect_any_certificate(made->certificate);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->common_name, "gateway");
  EXPECT_EQ(info->identity, std::nullopt);
  EXPECT_EQ(info->cluster_id, "");
  EXPECT_FALSE(info->is_authority);
  EXPECT_THAT(info->hosts, ElementsAre("cache.example.org", "10.0.0.7"));
  EXPECT_EQ(info->valid.until, valid.until);
  for (const auto& [name, hosts] : {std::pair<std::string, std::vector<std::string>>{"gateway", {}},
                                    {"gateway", {"a,URI:skua://x"}},
                                    {"", {"a"}},
                                    {"a/b", {"a"}}}) {
    EXPECT_EQ(issue_server_certificate(ca, name, hosts, valid).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Certificates, AreInspectedWhoeverTheyAreOf) {
  const auto of_authority = inspect_any_certificate(authority().certificate);
  ASSERT_TRUE(of_authority.ok()) << of_authority.status();
  EXPECT_EQ(of_authority->cluster_id, kCluster);
  const CertificateAndKey member = issue(authority(), {kCluster, Role::kClient, "app"});
  const auto of_member = inspect_any_certificate(member.certificate);
  ASSERT_TRUE(of_member.ok()) << of_member.status();
  EXPECT_EQ(of_member->identity, (Identity{kCluster, Role::kClient, "app"}));
  EXPECT_FALSE(inspect_any_certificate(member.key).ok());
}

TEST(Certificates, AnAuthorityIsOfOneCluster) {
  const auto info = inspect_certificate(authority().certificate);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->is_authority);
  EXPECT_EQ(info->identity, std::nullopt);
  EXPECT_EQ(info->cluster_id, kCluster);
  EXPECT_EQ(issue_certificate(authority(), {kOther, Role::kAdmin, "ada"}, {}, {kNow, kNow + kDay}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Certificates, NothingIsIssuedByWhoIsNoAuthority) {
  const CertificateAndKey ca = authority();
  const CertificateAndKey leaf = issue(ca, {kCluster, Role::kAdmin, "ada"});
  EXPECT_FALSE(issue_certificate(leaf, {kCluster, Role::kAdmin, "eve"}, {}, {kNow, kNow + kDay}).ok());
  EXPECT_FALSE(issue_certificate({ca.certificate, leaf.key}, {kCluster, Role::kAdmin, "eve"}, {}, {kNow, kNow}).ok());
  EXPECT_FALSE(issue_certificate({"", ""}, {kCluster, Role::kAdmin, "eve"}, {}, {kNow, kNow + kDay}).ok());
  EXPECT_FALSE(make_authority("mine", {kNow, kNow + kDay}).ok());
}

/// A host is a part of a list in OpenSSL's language: it must not begin another entry.
TEST(Certificates, AHostCannotAddAName) {
  for (const char* host : {"a,URI:skua://x", "a b", "", "a\n", "*", "URI:skua://x/admin/eve"}) {
    EXPECT_EQ(
        issue_certificate(authority(), {kCluster, Role::kNode, kNode}, {host}, {kNow, kNow + kDay}).status().code(),
        absl::StatusCode::kInvalidArgument)
        << host;
  }
}

TEST(Certificates, NoneOutlivesItsAuthority) {
  const auto short_lived = make_authority(kCluster, {kNow, kNow + kDay});
  ASSERT_TRUE(short_lived.ok());
  const CertificateAndKey made = issue(*short_lived, {kCluster, Role::kClient, "a"}, {kNow, kNow + 10 * kDay});
  EXPECT_EQ(inspect_certificate(made.certificate)->valid.until, kNow + kDay);
}

TEST(Certificates, AnAuthorityThatHasExpiredIssuesNone) {
  const auto ca = make_authority(kCluster, {kNow - kDay, kNow});
  ASSERT_TRUE(ca.ok()) << ca.status();
  const ValidTime valid = {kNow, kNow + kDay};
  for (const absl::Status& status : {issue_certificate(*ca, {kCluster, Role::kClient, "shop"}, {}, valid).status(),
                                     issue_server_certificate(*ca, "gateway", {"localhost"}, valid).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the authority expired at " + wall_time_text(kNow)));
  }
  EXPECT_TRUE(issue_certificate(*ca, {kCluster, Role::kClient, "shop"}, {}, {kNow - 1, kNow + kDay}).ok());
}

TEST(Certificates, WhatCannotBeUsedSaysWhy) {
  const CertificateAndKey ca = authority();
  const CertificateAndKey good = issue(ca, {kCluster, Role::kClient, "app"});
  const CertificateAndKey stranger = issue(authority(), {kCluster, Role::kClient, "app"});
  EXPECT_TRUE(check_credentials(good, ca.certificate, kNow).ok());
  EXPECT_THAT(refusal(good, ca.certificate, kNow + kDay), HasSubstr("expired at 2027-01-16"));
  EXPECT_THAT(refusal(good, ca.certificate, kNow - kDay), HasSubstr("clock"));
  EXPECT_THAT(refusal({good.certificate, stranger.key}, ca.certificate), HasSubstr("another certificate's"));
  EXPECT_THAT(refusal({good.certificate, ""}, ca.certificate), HasSubstr("private key is missing"));
  EXPECT_THAT(refusal(stranger, ca.certificate), HasSubstr("none of the trusted authorities has signed it"));
  EXPECT_THAT(refusal(good, ""), HasSubstr("authorities' file has no certificate"));
  EXPECT_THAT(refusal(good, good.certificate), HasSubstr("cannot be used"));
  EXPECT_THAT(refusal(ca, ca.certificate), HasSubstr("the authority's"));
  EXPECT_THAT(refusal({"", ""}, ca.certificate), HasSubstr("no certificate"));
}

/// While an authority is replaced, programs trust two.
TEST(Certificates, TwoAuthoritiesAreTrustedAtATime) {
  const CertificateAndKey first = authority();
  const CertificateAndKey second = authority();
  const std::string both = first.certificate + second.certificate;
  EXPECT_TRUE(check_credentials(issue(first, {kCluster, Role::kClient, "a"}), both, kNow).ok());
  EXPECT_TRUE(check_credentials(issue(second, {kCluster, Role::kClient, "a"}), both, kNow).ok());
}

TEST(Certificates, ExpiryIsToldInTime) {
  const CertificateAndKey ca = authority();
  const auto trouble_of = [&](WallSeconds valid_s, WallSeconds left_s) {
    const CertificateAndKey made = issue(ca, {kCluster, Role::kClient, "a"}, {kNow, kNow + valid_s});
    return expiry_trouble(*inspect_certificate(made.certificate), kNow + valid_s - left_s);
  };
  EXPECT_EQ(trouble_of(365 * kDay, 8 * kDay), "");
  EXPECT_THAT(trouble_of(365 * kDay, 6 * kDay), HasSubstr("expires at 2028-01-15"));
  EXPECT_EQ(trouble_of(kDay, kDay / 2), "");
  EXPECT_THAT(trouble_of(kDay, kDay / 10), HasSubstr("have a new one issued"));
  EXPECT_THAT(trouble_of(kDay, 0), HasSubstr("expired at"));
}

TEST(Certificates, ANameThatNobodySignsIsNotRenewed) {
  CertificateInfo info;
  info.identity = {kCluster, Role::kClient, "shop"};
  info.hosts = {"a.example", "*.b.example", "10.0.0.7", "fd00::7", "with_line"};
  EXPECT_TRUE(check_renewable(info).ok());
  info.hosts.emplace_back("two words");
  const absl::Status refused = check_renewable(info);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("client/shop has the name \"two words\", which the authority"));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("skuactl cert issue client shop --authority DIR --hosts NAMES"));
}

TEST(Certificates, OtherTextsAreNone) {
  for (const char* text : {"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    EXPECT_EQ(inspect_certificate(text).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace skua::control
