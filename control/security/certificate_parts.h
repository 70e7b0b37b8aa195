// What certificates.cc and certificates_read.cc share: OpenSSL's objects, and their form as text. Thread: any.
#ifndef SKUA_CONTROL_SECURITY_CERTIFICATE_PARTS_H_
#define SKUA_CONTROL_SECURITY_CERTIFICATE_PARTS_H_

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/certificates.h"

namespace skua::control::certificate {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* held) const {
    Free(held);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Store = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using Request = std::unique_ptr<X509_REQ, Freed<X509_REQ_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

/// An authority names its cluster by such a URI.
inline constexpr std::string_view kAuthorityUri = "skua://";
/// Clocks of machines differ: a certificate is valid a little before it is issued.
inline constexpr WallSeconds kClockSkewS = 300;

/// What OpenSSL says of its last failure.
[[nodiscard]] absl::Status openssl_error(const char* what);

/// Null: no private key in PEM form, or one with a password.
[[nodiscard]] Key read_key(std::string_view pem);
/// All certificates of the text, in order.
[[nodiscard]] std::vector<Certificate> read_certificates(std::string_view pem);
[[nodiscard]] absl::StatusOr<std::string> pem_of(X509* certificate);
[[nodiscard]] absl::StatusOr<std::string> pem_of(EVP_PKEY* key);

[[nodiscard]] std::string hexadecimal(const unsigned char* bytes, size_t count);
/// SHA-256, hexadecimal.
[[nodiscard]] absl::StatusOr<std::string> hash_of_key(EVP_PKEY* key);

}  // namespace skua::control::certificate

#endif  // SKUA_CONTROL_SECURITY_CERTIFICATE_PARTS_H_
