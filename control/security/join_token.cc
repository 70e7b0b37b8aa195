#include "control/security/join_token.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

constexpr char kVersion = 1;
constexpr size_t kChecksumBytes = 3;
constexpr size_t kHeadBytes = 3;  // version and port
constexpr size_t kTokenBytes = kHeadBytes + kJoinSecretBytes + kAuthorityHashBytes + kChecksumBytes;
// So no padding, and each token has one word.
static_assert(kTokenBytes % 3 == 0);

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

absl::Status no_token() {
  return absl::InvalidArgumentError(
      "this is no join token, or not the whole word: it begins with skua-join-, as skuactl cert join-token printed it");
}

}  // namespace

std::string encode_join_token(const JoinToken& token) {
  std::string bytes(1, kVersion);
  bytes += static_cast<char>(token.port >> 8);
  bytes += static_cast<char>(token.port & 0xff);
  bytes += token.secret;
  bytes += token.authority;
  bytes += sha256(bytes).substr(0, kChecksumBytes);
  std::string word;
  absl::WebSafeBase64Escape(bytes, &word);
  return absl::StrCat(absl_view(kJoinTokenPrefix), word);
}

absl::StatusOr<JoinToken> parse_join_token(std::string_view word) {
  if (!word.starts_with(kJoinTokenPrefix) || word.size() != kJoinTokenPrefix.size() + kTokenBytes / 3 * 4)
    return no_token();
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(absl_view(word.substr(kJoinTokenPrefix.size())), &bytes)) return no_token();
  if (bytes.size() != kTokenBytes || bytes[0] != kVersion) return no_token();
  JoinToken token;
  token.port =
      static_cast<uint16_t>((static_cast<unsigned char>(bytes[1]) << 8) | static_cast<unsigned char>(bytes[2]));
  token.secret = bytes.substr(kHeadBytes, kJoinSecretBytes);
  token.authority = bytes.substr(kHeadBytes + kJoinSecretBytes, kAuthorityHashBytes);
  // The checksum, and that there is no other way to write the same bytes.
  if (token.port == 0 || encode_join_token(token) != word) return no_token();
  return token;
}

std::string join_secret_hash(std::string_view secret) {
  return absl::BytesToHexString(sha256(secret));
}

absl::StatusOr<std::string> make_join_secret() {
  std::array<unsigned char, kJoinSecretBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return absl::InternalError("no random numbers");
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace skua::control
