// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), the checksum of iSCSI, ext4 and SCTP.
#ifndef SKUA_RPC_BASE_CRC32C_H_
#define SKUA_RPC_BASE_CRC32C_H_

#include <cstdint>

#include "rpc/base/bytes.h"

namespace skua {

/// Extends `crc` (0 for the first piece) over `bytes`: crc32c_extend(crc32c(a), b) == crc32c(a
/// followed by b). Uses the SSE4.2 instruction where the build has it. Check value:
/// crc32c("123456789") == 0xe3069283.
[[nodiscard]] uint32_t crc32c_extend(uint32_t crc, ByteSpan bytes);

[[nodiscard]] inline uint32_t crc32c(ByteSpan bytes) {
  return crc32c_extend(0, bytes);
}

namespace internal {
/// The table-driven form: the fallback, and the fast form's twin in tests.
[[nodiscard]] uint32_t crc32c_extend_portable(uint32_t crc, ByteSpan bytes);
}  // namespace internal

}  // namespace skua

#endif  // SKUA_RPC_BASE_CRC32C_H_
