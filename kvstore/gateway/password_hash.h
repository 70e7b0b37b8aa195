// PasswordHash: a password as a users file has it: scrypt with a random salt, in the PHC string format.
//
//   $scrypt$ln=14,r=8,p=1$SALT$HASH          SALT: 16 bytes, HASH: 32 bytes; base64 without padding
//
// scrypt is slow on purpose: whoever steals the file can try few passwords a second. One check takes about a tenth of a
// second of a core and 16 MiB, so it has a thread of its own (password_checker.h). The cost is the same for all
// hashes: other costs are refused. So the time of a check does not tell whether a user exists.
#ifndef SKUA_KVSTORE_GATEWAY_PASSWORD_HASH_H_
#define SKUA_KVSTORE_GATEWAY_PASSWORD_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace skua::kv::gateway {

/// Bytes of a password. Longer ones are never right.
inline constexpr size_t kPasswordBytesMax = 1024;

struct PasswordHash {
  static constexpr size_t kSaltBytes = 16;
  static constexpr size_t kHashBytes = 32;

  std::array<uint8_t, kSaltBytes> salt{};
  std::array<uint8_t, kHashBytes> hash{};

  friend bool operator==(const PasswordHash&, const PasswordHash&) = default;
};

/// With a new salt. Slow. INVALID_ARGUMENT: the password is empty or too long. INTERNAL: no memory.
[[nodiscard]] absl::StatusOr<PasswordHash> hash_password(std::string_view password);
/// Slow, and takes as long for a wrong password as for the right one.
[[nodiscard]] bool is_password(const PasswordHash& hash, std::string_view password);

/// Random: no password has it.
[[nodiscard]] PasswordHash hash_of_no_password();

/// Names pairs of hash and password by digests under a random key, from which nobody learns anything of either. Fast.
/// Thread: any.
class PasswordDigests {
 public:
  PasswordDigests();
  /// 32 bytes.
  [[nodiscard]] std::string digest_of(const PasswordHash& hash, std::string_view password) const;

 private:
  std::array<uint8_t, 32> key_;
};

/// Overwrites a secret.
void wipe(std::string& secret);

[[nodiscard]] std::string password_hash_text(const PasswordHash& hash);
/// INVALID_ARGUMENT: not a text of password_hash_text().
[[nodiscard]] absl::StatusOr<PasswordHash> parse_password_hash(std::string_view text);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_PASSWORD_HASH_H_
