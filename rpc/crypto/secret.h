// Secret: bytes that are wiped when they are no longer needed.
//
// Keys and what keys are derived from are Secrets. A Secret can be copied, so that each holder decides how long it
// lives; every copy wipes itself.
#ifndef SKUA_RPC_CRYPTO_SECRET_H_
#define SKUA_RPC_CRYPTO_SECRET_H_

#include <string.h>

#include <array>
#include <cstddef>

#include "rpc/base/bytes.h"

namespace skua::rpc {

template <size_t kBytes>
class Secret {
 public:
  /// All zeros.
  Secret() = default;
  /// A copy of `bytes`, which has kBytes.
  explicit Secret(ByteSpan bytes) { copy_bytes(bytes_.data(), bytes.first(kBytes)); }
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret() { wipe(); }

  [[nodiscard]] ByteSpan bytes() const { return bytes_; }
  [[nodiscard]] MutableByteSpan bytes() { return bytes_; }
  /// Not optimized away, as a plain memset would be.
  void wipe() { explicit_bzero(bytes_.data(), bytes_.size()); }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_CRYPTO_SECRET_H_
