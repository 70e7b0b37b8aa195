#include "kvstore/gateway/password_hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <span>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

constexpr std::string_view kCostText = "$scrypt$ln=14,r=8,p=1$";
constexpr uint64_t kCostN = uint64_t{1} << 14;
constexpr uint64_t kCostR = 8;
constexpr uint64_t kCostP = 1;
/// 128 * N * r, and some more.
constexpr uint64_t kMemoryBytesMax = uint64_t{32} << 20;

bool derive(std::string_view password, const PasswordHash& hash,
            std::array<uint8_t, PasswordHash::kHashBytes>& derived) {
  return EVP_PBE_scrypt(password.data(), password.size(), hash.salt.data(), hash.salt.size(), kCostN, kCostR, kCostP,
                        kMemoryBytesMax, derived.data(), derived.size()) == 1;
}

void draw(std::span<uint8_t> bytes) {
  SKUA_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "OpenSSL has no random numbers");
}

absl::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string base64_without_padding(std::span<const uint8_t> bytes) {
  const std::string text = absl::Base64Escape(text_of(bytes));
  return text.substr(0, text.find('='));
}

bool read_base64(absl::string_view text, std::span<uint8_t> out) {
  std::string bytes;
  if (!absl::Base64Unescape(text, &bytes) || bytes.size() != out.size()) return false;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return true;
}

}  // namespace

absl::StatusOr<PasswordHash> hash_password(std::string_view password) {
  if (password.empty() || password.size() > kPasswordBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a password must have 1 to ", kPasswordBytesMax, " bytes"));
  }
  PasswordHash made;
  draw(made.salt);
  if (!derive(password, made, made.hash)) return absl::InternalError("OpenSSL makes no scrypt hash: no memory");
  return made;
}

bool is_password(const PasswordHash& hash, std::string_view password) {
  std::array<uint8_t, PasswordHash::kHashBytes> derived{};
  const bool is_derived = derive(password.substr(0, kPasswordBytesMax), hash, derived);
  const bool is_same = CRYPTO_memcmp(derived.data(), hash.hash.data(), derived.size()) == 0;
  return is_derived && is_same && password.size() <= kPasswordBytesMax;
}

PasswordHash hash_of_no_password() {
  PasswordHash hash;
  draw(hash.salt);
  draw(hash.hash);
  return hash;
}

PasswordDigests::PasswordDigests() {
  draw(key_);
}

std::string PasswordDigests::digest_of(const PasswordHash& hash, std::string_view password) const {
  // Salt and hash have one length each: no two pairs have the same bytes.
  std::string pair = absl::StrCat(text_of(hash.salt), text_of(hash.hash), absl_view(password));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  const bool is_made =
      HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(pair.data()), pair.size(), digest.data(), &size) != nullptr;
  wipe(pair);
  SKUA_CHECK(is_made, "OpenSSL has no HMAC");
  return {reinterpret_cast<const char*>(digest.data()), size};
}

void wipe(std::string& secret) {
  OPENSSL_cleanse(secret.data(), secret.size());
}

std::string password_hash_text(const PasswordHash& hash) {
  return absl::StrCat(absl_view(kCostText), base64_without_padding(hash.salt), "$", base64_without_padding(hash.hash));
}

absl::StatusOr<PasswordHash> parse_password_hash(std::string_view text) {
  absl::string_view rest = absl_view(text);
  PasswordHash parsed;
  const bool has_cost = absl::ConsumePrefix(&rest, absl_view(kCostText));
  const size_t sign = rest.find('$');
  const bool is_hash = has_cost && sign != absl::string_view::npos && read_base64(rest.substr(0, sign), parsed.salt) &&
                       read_base64(rest.substr(sign + 1), parsed.hash);
  // One text for each hash: other writings of base64 are none.
  if (is_hash && password_hash_text(parsed) == text) return parsed;
  return absl::InvalidArgumentError(absl::StrCat("not a hash of a password, which begins with ", absl_view(kCostText),
                                                 " and which skua-gateway --hash-password makes"));
}

}  // namespace skua::kv::gateway
