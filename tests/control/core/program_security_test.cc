#include "control/core/program_security.h"

#include <gtest/gtest.h>

namespace skua::control {
namespace {

TEST(ProgramSecurity, IsDescribedForPeople) {
  EXPECT_EQ(describe({}), "unknown");
  EXPECT_EQ(describe({Admission::kLoopback, PacketSafety::kOff}), "off, loopback only");
  EXPECT_EQ(describe({Admission::kUnsafe, PacketSafety::kOff}), "OFF-UNSAFE");
  EXPECT_EQ(describe({Admission::kCertificates, PacketSafety::kUnknown}), "certificates");
  EXPECT_EQ(describe({Admission::kCertificates, PacketSafety::kOff}), "certificates, packets off");
  EXPECT_EQ(describe({Admission::kCertificates, PacketSafety::kAuthenticate}), "certificates, packets authenticate");
  EXPECT_EQ(describe({Admission::kCertificates, PacketSafety::kEncrypt}), "certificates, packets encrypt");
}

TEST(ProgramSecurity, SaysThatStrangersAreLetInHoweverPacketsAreProtected) {
  EXPECT_EQ(describe({Admission::kAccept, PacketSafety::kEncrypt}), "ACCEPT: certificates, and who has none");
}

}  // namespace
}  // namespace skua::control
