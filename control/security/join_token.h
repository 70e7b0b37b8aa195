// JoinToken: one word that lets a program get its first certificate. An administrator has it made, and gives it to the
// machine that shall join.
//
//     skua-join-  base64url of:  version 1  port 2  secret 16  SHA-256 of the authority's certificate 32  checksum 3
//
//     secret        proves that an administrator wants it; the control plane keeps its hash only (join_tokens.h)
//     SHA-256       tells the joiner whom it talks to, before it says the secret
//     port          where the control plane takes those who join; the host is known as for everything else
//     checksum      a word that was copied badly is refused where it is read
#ifndef SKUA_CONTROL_SECURITY_JOIN_TOKEN_H_
#define SKUA_CONTROL_SECURITY_JOIN_TOKEN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace skua::control {

/// Words begin so.
inline constexpr std::string_view kJoinTokenPrefix = "skua-join-";
inline constexpr size_t kJoinSecretBytes = 16;
inline constexpr size_t kAuthorityHashBytes = 32;

struct JoinToken {
  uint16_t port = 0;      ///< not 0
  std::string secret;     ///< kJoinSecretBytes; random
  std::string authority;  ///< kAuthorityHashBytes: SHA-256 of the authority's certificate (DER)

  friend bool operator==(const JoinToken&, const JoinToken&) = default;
};

/// Only of a token whose parts have their sizes.
[[nodiscard]] std::string encode_join_token(const JoinToken& token);

/// INVALID_ARGUMENT: not a word of encode_join_token(). The message does not repeat it.
[[nodiscard]] absl::StatusOr<JoinToken> parse_join_token(std::string_view word);

/// By which the control plane knows the secret: SHA-256, hexadecimal.
[[nodiscard]] std::string join_secret_hash(std::string_view secret);

/// A secret of kJoinSecretBytes. INTERNAL: the system has no random numbers.
[[nodiscard]] absl::StatusOr<std::string> make_join_secret();

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_JOIN_TOKEN_H_
