// A certificate with a name that nobody of ours would sign: made by hand, or by another PKI.
#ifndef SKUA_TESTS_CONTROL_ODD_CERTIFICATE_H_
#define SKUA_TESTS_CONTROL_ODD_CERTIFICATE_H_

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "control/security/certificates.h"
#include "control/security/identity.h"

namespace skua::control {

/// `certificate` (PEM, of `authority`) signed once more, with `host` as its only name beside the identity.
inline std::string with_odd_host(const std::string& certificate, const CertificateAndKey& authority,
                                 const std::string& host) {
  const auto reader = [](const std::string& text) {
    return std::unique_ptr<BIO, decltype(&BIO_free_all)>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
                                                         &BIO_free_all);
  };
  const std::unique_ptr<X509, decltype(&X509_free)> made(
      PEM_read_bio_X509(reader(certificate).get(), nullptr, nullptr, nullptr), &X509_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(reader(authority.key).get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  X509_EXTENSION_free(X509_delete_ext(made.get(), X509_get_ext_by_NID(made.get(), NID_subject_alt_name, -1)));
  const std::string names = "URI:" + identity_uri(*inspect_certificate(certificate)->identity) + ",DNS:" + host;
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()), &X509_EXTENSION_free);
  EXPECT_EQ(X509_add_ext(made.get(), extension.get(), -1), 1);
  EXPECT_NE(X509_sign(made.get(), key.get(), EVP_sha256()), 0);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), &BIO_free_all);
  EXPECT_EQ(PEM_write_bio_X509(out.get(), made.get()), 1);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_ODD_CERTIFICATE_H_
