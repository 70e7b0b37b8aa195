#include "rpc/handshake_policy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "rpc/base/rng.h"
#include "rpc/protocol/options.h"
#include "rpc/wire/bundle.h"
#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

TEST(HandshakePolicy, OffersWhatTransportAndOptionsAllow) {
  testing::ObedientWire wire;
  EndpointOptions options;
  options.protocol.window = 16;
  options.protocol.message_max_bytes = 20'000;
  const HandshakePolicy policy(wire, options);
  EXPECT_EQ(policy.own_terms().window, 16);
  EXPECT_EQ(policy.own_terms().payload_bytes, 1000u);
  EXPECT_EQ(policy.own_terms().message_max_bytes, 20'000u);

  options.protocol.message_max_bytes = 300;
  EXPECT_EQ(policy.own_terms().payload_bytes, 300u) << "no packet is larger than the largest message";
  options.protocol.message_max_bytes = 32u << 20;
  wire.capabilities_.payload_max_bytes = 100;
  EXPECT_EQ(policy.own_terms().message_max_bytes, 100 * kPacketsPerMessageMax) << "indices of packets have 16 bits";
}

TEST(HandshakePolicy, ANarrowPathMakesPacketsSmaller) {
  testing::ObedientWire wire;
  const EndpointOptions options;
  const HandshakePolicy policy(wire, options);
  const SessionTerms own = policy.own_terms();
  wire.path_bytes = 10;
  const SessionTerms fit = policy.fit_path(own, 1);
  EXPECT_EQ(fit.payload_bytes, 10u);
  EXPECT_EQ(fit.message_max_bytes, 10 * kPacketsPerMessageMax);
  EXPECT_EQ(fit.window, own.window);
  wire.path_bytes = 5000;
  EXPECT_EQ(policy.fit_path(own, 1), own) << "a wide path makes nothing larger";
}

/// Both sides work out the terms, and the opener refuses an answer that it would not have given itself.
TEST(HandshakePolicy, BothSidesFindTheSameTerms) {
  Rng rng(5);
  for (int i = 0; i < 1000; ++i) {
    testing::ObedientWire wires[2];
    EndpointOptions options[2];
    for (int side = 0; side < 2; ++side) {
      wires[side].capabilities_.payload_max_bytes = 1 + static_cast<uint32_t>(rng.below(9000));
      wires[side].capabilities_.lendable_count = 1 + static_cast<uint32_t>(rng.below(1000));
      options[side].protocol.window = static_cast<uint16_t>(1u << rng.below(11));
      options[side].protocol.credits = 1 + static_cast<uint32_t>(rng.below(100));
      options[side].protocol.message_max_bytes = 1 + static_cast<uint32_t>(rng.below(32u << 20));
    }
    const HandshakePolicy one(wires[0], options[0]);
    const HandshakePolicy other(wires[1], options[1]);
    const SessionTerms agreed = one.common_terms(other.own_terms());
    EXPECT_EQ(other.common_terms(one.own_terms()), agreed);
    EXPECT_EQ(one.common_terms(agreed), agreed);
    EXPECT_EQ(other.common_terms(agreed), agreed);
  }
}

TEST(HandshakePolicy, AWindowFromAPeerBecomesAPowerOfTwo) {
  testing::ObedientWire wire;
  const EndpointOptions options;
  const HandshakePolicy policy(wire, options);
  SessionTerms offered = policy.own_terms();
  offered.window = 7;
  EXPECT_EQ(policy.common_terms(offered).window, 4);
}

TEST(HandshakePolicy, BundlesNeedFramesAndConsent) {
  testing::ObedientWire wire;
  EndpointOptions options;
  const HandshakePolicy policy(wire, options);
  EXPECT_EQ(policy.version_max(), kProtocolVersion);
  wire.capabilities_.frames = true;
  EXPECT_EQ(policy.version_max(), kBundleVersion);
  options.trusted_wire = true;
  EXPECT_EQ(version_of(policy.version_max()), kBundleVersion);
  EXPECT_NE(policy.version_max() & version_flags::kTrustedWire, 0);
  options.bundles = false;
  EXPECT_EQ(version_of(policy.version_max()), kProtocolVersion);
}

}  // namespace
}  // namespace skua::rpc
