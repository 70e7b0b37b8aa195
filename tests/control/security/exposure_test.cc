// Which servers may start without certificates: the whole table, and what the refusals say.
#include "control/security/exposure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Entrance kLocalGrpc{"--grpc-address 127.0.0.1:7410", true};
const Entrance kOpenGrpc{"--grpc-address 0.0.0.0:7410", false};
const Entrance kOpenData{"--data-address 10.0.0.4:7420", false};

TEST(Exposure, Judge_TheWholeTable) {
  struct Case {
    SecurityChoice choice;
    bool has_certificates;
    std::vector<Entrance> entrances;
    Admission admission;  // kUnknown: refused
  };
  const std::vector<Case> cases = {
      {SecurityChoice::kAuto, true, {kOpenGrpc}, Admission::kCertificates},
      {SecurityChoice::kAuto, true, {kLocalGrpc}, Admission::kCertificates},
      {SecurityChoice::kAuto, false, {kLocalGrpc}, Admission::kLoopback},
      {SecurityChoice::kAuto, false, {kOpenGrpc}, Admission::kUnknown},
      {SecurityChoice::kAuto, false, {kLocalGrpc, kOpenData}, Admission::kUnknown},
      {SecurityChoice::kOffUnsafe, false, {kLocalGrpc, kOpenData}, Admission::kUnsafe},
      {SecurityChoice::kOffUnsafe, false, {kLocalGrpc}, Admission::kLoopback},
      {SecurityChoice::kAccept, true, {kOpenGrpc}, Admission::kAccept},
      {SecurityChoice::kAccept, true, {kLocalGrpc}, Admission::kAccept},
      {SecurityChoice::kAccept, false, {kLocalGrpc}, Admission::kUnknown},
      {SecurityChoice::kOffUnsafe, true, {kOpenGrpc}, Admission::kUnknown},
      {SecurityChoice::kOffUnsafe, true, {kLocalGrpc}, Admission::kUnknown},
  };
  for (const Case& one : cases) {
    const auto judged = judge_exposure(one.choice, one.has_certificates, one.entrances, "node");
    SCOPED_TRACE(&one - cases.data());
    EXPECT_EQ(judged.ok() ? *judged : Admission::kUnknown, one.admission);
    if (!judged.ok()) {
      EXPECT_EQ(judged.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(Exposure, Judge_TheRefusalNamesTheEntrancesAndTheWaysOut) {
  const auto judged = judge_exposure(SecurityChoice::kAuto, false, {kLocalGrpc, kOpenData}, "node");
  const std::string text(judged.status().message());
  EXPECT_THAT(text, HasSubstr("--data-address 10.0.0.4:7420"));
  EXPECT_THAT(text, Not(HasSubstr("--grpc-address")));
  EXPECT_THAT(text, HasSubstr("skuactl cert init ca && skuactl cert issue node --authority ca --out certs"));
  EXPECT_THAT(text, HasSubstr("--security off-unsafe"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
}

TEST(Exposure, UnsafeWarning_OnlyOfWhatCanBeReached) {
  EXPECT_EQ(unsafe_warning(Admission::kUnsafe, {kLocalGrpc}, "node"), "");
  EXPECT_EQ(unsafe_warning(Admission::kCertificates, {kOpenGrpc}, "node"), "");
  EXPECT_THAT(unsafe_warning(Admission::kAccept, {kOpenGrpc}, "node"), HasSubstr("without a certificate is still"));
  EXPECT_THAT(unsafe_warning(Admission::kAccept, {kOpenGrpc}, "node"),
              HasSubstr("restart this program without --security accept"));
  const std::string warning = unsafe_warning(Admission::kUnsafe, {kOpenGrpc, kOpenData}, "node");
  EXPECT_THAT(warning, HasSubstr("--grpc-address 0.0.0.0:7410 and --data-address 10.0.0.4:7420"));
}

TEST(Exposure, IsLoopback) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "fe80::1", "node-1", "localhost.example.org", "",
                           "::ffff:10.0.0.1", "127.0.0.1.example.org"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(Exposure, Describe) {
  EXPECT_EQ(describe({}), "unknown");
  EXPECT_EQ(describe({Admission::kLoopback, PacketSafety::kOff}), "off, loopback only");
  EXPECT_EQ(describe({Admission::kUnsafe, PacketSafety::kOff}), "OFF-UNSAFE");
  EXPECT_EQ(describe({Admission::kAccept, PacketSafety::kOff}), "ACCEPT: certificates, and who has none");
  EXPECT_EQ(describe({Admission::kCertificates}), "certificates");
  EXPECT_EQ(describe({Admission::kCertificates, PacketSafety::kEncrypt}), "certificates, packets encrypt");
}

}  // namespace
}  // namespace skua::control
