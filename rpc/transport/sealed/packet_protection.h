// What users choose of sealing: whether, and how.
#ifndef SKUA_RPC_TRANSPORT_SEALED_PACKET_PROTECTION_H_
#define SKUA_RPC_TRANSPORT_SEALED_PACKET_PROTECTION_H_

#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::rpc {

/// A sender goes on to its next key after so much time by default. It does so earlier after four million frames.
constexpr DurationNs kPacketKeyLifetime = 3600 * kSecond;
constexpr DurationNs kPacketKeyLifetimeMin = kSecond;
constexpr DurationNs kPacketKeyLifetimeMax = 24 * 3600 * kSecond;

/// How the packets of sessions are protected. Both ends of a session must have it on, or both off, but for KeylessPeers
/// (seal.h). If one end only authenticates and the other one encrypts, both encrypt.
enum class PacketProtection : uint8_t {
  kDefault,       ///< kEncrypt with certificates, kOff without
  kOff,           ///< whoever is on the path can read, change and forge packets
  kAuthenticate,  ///< can read them
  kEncrypt,       ///< can do none of it
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_PACKET_PROTECTION_H_
