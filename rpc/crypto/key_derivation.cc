#include "rpc/crypto/key_derivation.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <cerrno>
#include <memory>

#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

struct KdfDeleter {
  void operator()(EVP_KDF* kdf) const { EVP_KDF_free(kdf); }
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};

/// OpenSSL's parameters are not const, though it only reads them.
OSSL_PARAM octets(const char* name, ByteSpan bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(bytes.data()), bytes.size());  // NOLINT
}

void hkdf(int mode, ByteSpan key, const char* other_name, ByteSpan other, MutableByteSpan out) {
  const std::unique_ptr<EVP_KDF, KdfDeleter> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, KdfDeleter> context(EVP_KDF_CTX_new(kdf.get()));
  std::array<char, 7> digest = {"SHA256"};
  const std::array<OSSL_PARAM, 5> params = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      octets(OSSL_KDF_PARAM_KEY, key),
      octets(other_name, other),
      OSSL_PARAM_construct_end(),
  };
  const int result =
      EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(), params.data());
  SKUA_CHECK(result == 1, "OpenSSL's HKDF failed");
}

}  // namespace

Hash sha256(ByteSpan bytes) {
  Hash out;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

RootSecret hkdf_extract(ByteSpan salt, ByteSpan material) {
  RootSecret out;
  hkdf(EVP_KDF_HKDF_MODE_EXTRACT_ONLY, material, OSSL_KDF_PARAM_SALT, salt, out.bytes());
  return out;
}

void hkdf_expand(const RootSecret& secret, std::string_view purpose, MutableByteSpan out) {
  hkdf(EVP_KDF_HKDF_MODE_EXPAND_ONLY, secret.bytes(), OSSL_KDF_PARAM_INFO, as_byte_span(purpose), out);
}

void draw_random(MutableByteSpan out) {
  while (!out.empty()) {
    const ssize_t drawn = getrandom(out.data(), out.size(), 0);
    SKUA_CHECK(drawn > 0 || errno == EINTR, "getrandom failed");
    if (drawn > 0) out = out.subspan(static_cast<size_t>(drawn));
  }
}

}  // namespace skua::rpc
