#include "rpc/transport/sealed/seal.h"

#include <utility>

#include "rpc/base/check.h"
#include "rpc/transport/sealed/sealed_transport.h"

namespace skua::rpc {
namespace {

/// Channels whose sessions have ended stay for a while.
constexpr uint32_t kChannelsToSpare = 1024;

}  // namespace

absl::StatusOr<PacketProtection> choose_protection(PacketProtection wanted, bool has_certificates) {
  if (wanted == PacketProtection::kDefault) {
    return has_certificates ? PacketProtection::kEncrypt : PacketProtection::kOff;
  }
  if (wanted != PacketProtection::kOff && !has_certificates) {
    return absl::InvalidArgumentError(
        "protected packets need certificates, over which keys are exchanged: give a certificate, its key and the "
        "authorities as well (docs/security.md)");
  }
  return wanted;
}

std::unique_ptr<Transport> seal(std::shared_ptr<Transport> wire, const Clock& clock, const SealChoice& choice) {
  const PacketProtection protection = choice.protection;
  SKUA_CHECK(protection == PacketProtection::kAuthenticate || protection == PacketProtection::kEncrypt,
             "there is nothing to seal");
  SealedOptions options;
  options.mode = protection == PacketProtection::kEncrypt ? SealMode::kEncrypt : SealMode::kAuthenticate;
  options.admits_keyless = choice.keyless == KeylessPeers::kAdmitted;
  options.rotation.interval_ns = choice.key_lifetime_ns;
  options.channels_max = choice.peers_max + kChannelsToSpare;
  return std::make_unique<SealedTransport>(std::move(wire), clock, std::move(options));
}

}  // namespace skua::rpc
