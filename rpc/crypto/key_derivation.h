// Deriving keys from secrets: HKDF with SHA-256 (RFC 5869), and random bytes.
#ifndef SKUA_RPC_CRYPTO_KEY_DERIVATION_H_
#define SKUA_RPC_CRYPTO_KEY_DERIVATION_H_

#include <array>
#include <cstddef>
#include <string_view>

#include "rpc/base/bytes.h"
#include "rpc/crypto/secret.h"

namespace skua::rpc {

inline constexpr size_t kHashBytes = 32;
using Hash = std::array<std::byte, kHashBytes>;
using RootSecret = Secret<kHashBytes>;

[[nodiscard]] Hash sha256(ByteSpan bytes);

/// HKDF-Extract: a secret of full strength from `material`, which may be known in parts; `salt` need not be secret.
[[nodiscard]] RootSecret hkdf_extract(ByteSpan salt, ByteSpan material);
/// HKDF-Expand: fills `out` with bytes that belong to this `purpose` alone. Bytes of different purposes tell nothing of
/// each other, nor of the secret. `out` has at most 255 * kHashBytes.
void hkdf_expand(const RootSecret& secret, std::string_view purpose, MutableByteSpan out);

/// Fills `out` with random bytes that nobody can guess, from the kernel.
void draw_random(MutableByteSpan out);

}  // namespace skua::rpc

#endif  // SKUA_RPC_CRYPTO_KEY_DERIVATION_H_
