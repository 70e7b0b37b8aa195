// Bytes as test vectors write them.
#ifndef SKUA_TESTS_RPC_CRYPTO_HEX_H_
#define SKUA_TESTS_RPC_CRYPTO_HEX_H_

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "rpc/base/bytes.h"

namespace skua::rpc {

inline std::string from_hex(std::string_view hex) {
  return absl::HexStringToBytes({hex.data(), hex.size()});
}
inline std::string to_hex(ByteSpan bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace skua::rpc

#endif  // SKUA_TESTS_RPC_CRYPTO_HEX_H_
