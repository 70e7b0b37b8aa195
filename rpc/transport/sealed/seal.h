// Putting seals on a transport, as users have chosen.
#ifndef SKUA_RPC_TRANSPORT_SEALED_SEAL_H_
#define SKUA_RPC_TRANSPORT_SEALED_SEAL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/sealed/packet_protection.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// What kDefault stands for; all others are as they are. INVALID_ARGUMENT: protection needs certificates, because keys
/// are exchanged over connections that certificates protect.
[[nodiscard]] absl::StatusOr<PacketProtection> choose_protection(PacketProtection wanted, bool has_certificates);

/// Whether peers that have no keys get sessions, too (SealedOptions::admits_keyless).
enum class KeylessPeers : uint8_t { kRefused, kAdmitted };

struct SealChoice {
  PacketProtection protection = PacketProtection::kEncrypt;  ///< kAuthenticate or kEncrypt
  uint32_t peers_max = 0;                                    ///< peers with sessions at the same time
  KeylessPeers keyless = KeylessPeers::kRefused;
  DurationNs key_lifetime_ns = kPacketKeyLifetime;  ///< of the keys by which this side sends
};

/// The sealed transport. `clock` must outlive it.
[[nodiscard]] std::unique_ptr<Transport> seal(std::shared_ptr<Transport> wire, const Clock& clock,
                                              const SealChoice& choice);

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_SEAL_H_
