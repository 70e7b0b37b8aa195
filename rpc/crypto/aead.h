// Aead: AES-128 in Galois/counter mode (NIST SP 800-38D), under one key.
//
//   seal       nonce, associated data, plain text    -> cipher text of the same size, tag
//   open       nonce, associated data, cipher text, tag -> plain text, or: forged
//   sign       nonce, associated data                -> tag (GMAC): the data stays readable
//   verify     nonce, associated data, tag           -> genuine, or: forged
//
// A nonce must never be used twice under one key, be it by seal() or sign(): whoever sees two texts under one nonce can
// forge others. This class does not count; its users do (rpc/transport/sealed/channel_keys.h).
//
// Two libraries do the work, with the same results. Intel's multi-buffer library takes a quarter of OpenSSL's time for
// small packets, because it is called directly and uses the widest instructions that the processor has.
#ifndef SKUA_RPC_CRYPTO_AEAD_H_
#define SKUA_RPC_CRYPTO_AEAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "rpc/base/bytes.h"
#include "rpc/crypto/secret.h"

namespace skua::rpc {

inline constexpr size_t kAeadKeyBytes = 16;
inline constexpr size_t kAeadNonceBytes = 12;
inline constexpr size_t kAeadTagBytes = 16;

using AeadKey = Secret<kAeadKeyBytes>;
using AeadNonce = std::array<std::byte, kAeadNonceBytes>;

/// The expanded key is wiped with the object. Intel's is in no core dump either. Thread: one at a time.
class Aead {
 public:
  virtual ~Aead() = default;
  Aead(const Aead&) = delete;
  Aead& operator=(const Aead&) = delete;

  /// Writes the cipher text of all `pieces`, one behind the other, to `to`, and the tag to `tag` (kAeadTagBytes). There
  /// is at least one piece. `to` may be where a single piece lies; else it overlaps no piece.
  virtual void seal(const AeadNonce& nonce, ByteSpan associated, std::span<const ByteSpan> pieces, std::byte* to,
                    std::byte* tag) = 0;
  /// Replaces the cipher text in `text` by the plain text. False: text, tag or associated data are not what seal() made
  /// of anything; `text` then holds garbage that must not be read.
  [[nodiscard]] virtual bool open(const AeadNonce& nonce, ByteSpan associated, MutableByteSpan text,
                                  const std::byte* tag) = 0;
  virtual void sign(const AeadNonce& nonce, ByteSpan associated, std::byte* tag) = 0;
  [[nodiscard]] virtual bool verify(const AeadNonce& nonce, ByteSpan associated, const std::byte* tag);

 protected:
  Aead() = default;
};

enum class AeadLibrary : uint8_t { kIpsecMb, kOpenSsl };

/// The fastest library that this processor and this build have.
[[nodiscard]] AeadLibrary best_aead_library();
[[nodiscard]] bool has_aead_library(AeadLibrary library);
[[nodiscard]] std::string_view to_string(AeadLibrary library);

/// `library` must be there (checked).
[[nodiscard]] std::unique_ptr<Aead> make_aead(const AeadKey& key, AeadLibrary library = best_aead_library());

/// How keys become ciphers; simulations watch what is done with them.
using AeadMaker = std::function<std::unique_ptr<Aead>(const AeadKey& key)>;
[[nodiscard]] std::unique_ptr<Aead> make_best_aead(const AeadKey& key);

/// Whether two tags of kAeadTagBytes are equal. The time does not tell where they differ.
[[nodiscard]] bool is_equal_tag(const std::byte* a, const std::byte* b);

namespace internal {
/// Null: the build or the processor lacks what the library needs.
std::unique_ptr<Aead> make_ipsec_mb_aead(const AeadKey& key);
[[nodiscard]] bool has_ipsec_mb();
}  // namespace internal

}  // namespace skua::rpc

#endif  // SKUA_RPC_CRYPTO_AEAD_H_
