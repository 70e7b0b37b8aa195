#include "control/security/certificate_parts.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace skua::control::certificate {
namespace {

Bio bio_of(std::string_view pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

std::string text_of(BIO* bio) {
  const char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return size <= 0 ? std::string() : std::string(bytes, static_cast<size_t>(size));
}

/// A key file with a password is refused, instead of a question to a terminal.
int no_password(char* /*to*/, int /*size*/, int /*writes*/, void* /*context*/) {
  return -1;
}

}  // namespace

absl::Status openssl_error(const char* what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", text.data()));
}

Key read_key(std::string_view pem) {
  const Bio bio = bio_of(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

std::vector<Certificate> read_certificates(std::string_view pem) {
  const Bio bio = bio_of(pem);
  std::vector<Certificate> all;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)) all.emplace_back(next);
  ERR_clear_error();
  return all;
}

absl::StatusOr<std::string> pem_of(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return openssl_error("a certificate cannot be written");
  return text_of(bio.get());
}

absl::StatusOr<std::string> pem_of(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_secmem()));
  if (PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_error("a private key cannot be written");
  }
  return text_of(bio.get());
}

std::string hexadecimal(const unsigned char* bytes, size_t count) {
  return absl::BytesToHexString(std::string(reinterpret_cast<const char*>(bytes), count));
}

absl::StatusOr<std::string> hash_of_key(EVP_PKEY* key) {
  unsigned char* bytes = nullptr;
  const int size = i2d_PUBKEY(key, &bytes);
  if (size <= 0) return openssl_error("a public key cannot be written");
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_size = 0;
  const bool hashed =
      EVP_Digest(bytes, static_cast<size_t>(size), digest.data(), &digest_size, EVP_sha256(), nullptr) == 1;
  OPENSSL_free(bytes);
  if (!hashed) return openssl_error("no hash of a public key");
  return hexadecimal(digest.data(), digest_size);
}

}  // namespace skua::control::certificate
