// Checksums of packets without a seal, on wires that do not detect damage themselves.
//
// The endpoint above the seals adds no checksums, because seals detect damage (Capabilities::integrity). A peer without
// keys on such a wire adds and expects them (rpc/wire). So the sealed transport writes and checks them for it:
//
//   endpoint  -- without a checksum -->  [ add_checksum ]   -- as an engine without seals sends -->  keyless peer
//             <-----------------------  [ check_checksum ]  <------------------------------------
#ifndef SKUA_RPC_TRANSPORT_SEALED_KEYLESS_CHECKSUM_H_
#define SKUA_RPC_TRANSPORT_SEALED_KEYLESS_CHECKSUM_H_

#include "rpc/base/bytes.h"
#include "rpc/wire/bundle.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

/// Writes the checksum of a whole packet or bundle. `packet` has at least kHeaderBytes.
inline void add_checksum(MutableByteSpan packet) {
  if (is_bundle(packet.data())) return store_le(packet.data() + kBundleChecksumOffset, bundle_crc(packet));
  const ByteSpan payload = packet.subspan(kHeaderBytes);
  store_le(packet.data() + internal::kCrcOffset, internal::HeaderWords::load(packet.data()).crc(&payload, 1));
}

/// False: the packet is damaged, or has no checksum. Otherwise it is as from a wire with integrity: a bundle then has
/// its length in the checksum's place. `packet` has at least kHeaderBytes.
[[nodiscard]] inline bool check_checksum(MutableByteSpan packet) {
  if (!is_bundle(packet.data())) return verify_checksum(packet.first(kHeaderBytes), packet.subspan(kHeaderBytes));
  if (load_le<uint32_t>(packet.data() + kBundleChecksumOffset) != bundle_crc(packet)) return false;
  store_le(packet.data() + kBundleChecksumOffset, static_cast<uint32_t>(packet.size()));
  return true;
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_KEYLESS_CHECKSUM_H_
