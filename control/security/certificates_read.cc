// Certificates that are there: what they say, and whether they can be used.
#include <arpa/inet.h>
#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/security/certificate_parts.h"
#include "control/security/certificates.h"

namespace skua::control {

namespace {

using certificate::Certificate;
using certificate::hash_of_key;
using certificate::hexadecimal;
using certificate::kAuthorityUri;
using certificate::kClockSkewS;
using certificate::Key;
using certificate::Names;
using certificate::openssl_error;
using certificate::pem_of;
using certificate::read_certificates;
using certificate::read_key;
using certificate::Store;
using certificate::StoreContext;

constexpr WallSeconds kExpirySoonS = 7 * 86'400;

WallSeconds seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

struct AlternativeNames {
  std::vector<std::string> uris;
  std::vector<std::string> hosts;
};

std::string string_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string address_of(const ASN1_STRING* bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(bytes) != 16) return "?";
  return inet_ntop(family, ASN1_STRING_get0_data(bytes), text.data(), text.size());
}

AlternativeNames names_of(const X509* certificate) {
  AlternativeNames found;
  const Names names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) found.uris.push_back(string_of(name->d.uniformResourceIdentifier));
    if (name->type == GEN_DNS) found.hosts.push_back(string_of(name->d.dNSName));
    if (name->type == GEN_IPADD) found.hosts.push_back(address_of(name->d.iPAddress));
  }
  return found;
}

absl::Status no_certificate() {
  return absl::InvalidArgumentError("there is no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
}

std::string common_name_of(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return place < 0 ? "" : string_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)));
}

/// What any certificate says. Who it is for in a cluster: see add_identity().
absl::StatusOr<CertificateInfo> facts_of(X509* certificate) {
  CertificateInfo info;
  info.common_name = common_name_of(certificate);
  info.is_authority = X509_check_ca(certificate) == 1;
  info.hosts = names_of(certificate).hosts;
  info.valid = {seconds_of(X509_get0_notBefore(certificate)), seconds_of(X509_get0_notAfter(certificate))};
  const ASN1_INTEGER* const serial = X509_get0_serialNumber(certificate);
  info.serial = hexadecimal(ASN1_STRING_get0_data(serial), static_cast<size_t>(ASN1_STRING_length(serial)));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &size) != 1) return openssl_error("no fingerprint");
  info.fingerprint = hexadecimal(digest.data(), size);
  absl::StatusOr<std::string> key_hash = hash_of_key(X509_get0_pubkey(certificate));
  if (!key_hash.ok()) return key_hash.status();
  info.key_hash = *std::move(key_hash);
  return info;
}

absl::Status add_identity(const X509* certificate, CertificateInfo& info) {
  const std::vector<std::string> uris = names_of(certificate).uris;
  if (uris.size() != 1) {
    return absl::InvalidArgumentError("not a certificate of Skua's: it has no name skua://CLUSTER-ID/ROLE/NAME");
  }
  if (info.is_authority) {
    if (!uris[0].starts_with(kAuthorityUri)) return absl::InvalidArgumentError("not an authority of a Skua cluster");
    info.cluster_id = uris[0].substr(kAuthorityUri.size());
    return absl::OkStatus();
  }
  absl::StatusOr<Identity> identity = parse_identity_uri(uris[0]);
  if (!identity.ok()) return identity.status();
  info.cluster_id = identity->cluster_id;
  info.identity = *std::move(identity);
  return absl::OkStatus();
}

absl::StatusOr<CertificateInfo> info_of(X509* certificate) {
  absl::StatusOr<CertificateInfo> info = facts_of(certificate);
  if (!info.ok()) return info;
  if (absl::Status status = add_identity(certificate, *info); !status.ok()) return status;
  return info;
}

/// Why OpenSSL does not take a certificate, in a user's words.
std::string refusal_text(int error) {
  switch (error) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return "none of the trusted authorities has signed it: give the authority that did, or have a certificate issued "
             "by one of these";
    default: return X509_verify_cert_error_string(error);
  }
}

/// Whether one of `authorities` has signed the first of `chain`, by those behind it there if need be.
absl::Status verify(const std::vector<Certificate>& chain, std::string_view authorities, WallSeconds now) {
  const std::vector<Certificate> roots = read_certificates(authorities);
  if (roots.empty()) return absl::FailedPreconditionError("the authorities' file has no certificate in PEM form");
  const Store store(X509_STORE_new());
  for (const Certificate& root : roots) X509_STORE_add_cert(store.get(), root.get());
  STACK_OF(X509)* between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), between);
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()), now);
  const bool verified = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(between);
  ERR_clear_error();
  return verified
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat("the certificate cannot be used: ", refusal_text(error)));
}

/// Without the time by which it is antedated.
WallSeconds issued_at(const CertificateInfo& info) {
  return std::min(info.valid.from + kClockSkewS, info.valid.until);
}

}  // namespace

absl::StatusOr<CertificateInfo> inspect_certificate(std::string_view pem) {
  const std::vector<Certificate> all = read_certificates(pem);
  if (all.empty()) return no_certificate();
  return info_of(all[0].get());
}

absl::StatusOr<CertificateInfo> inspect_any_certificate(std::string_view pem) {
  const std::vector<Certificate> all = read_certificates(pem);
  if (all.empty()) return no_certificate();
  absl::StatusOr<CertificateInfo> info = facts_of(all[0].get());
  if (info.ok()) add_identity(all[0].get(), *info).IgnoreError();
  return info;
}

absl::StatusOr<std::string> first_certificate(std::string_view pem) {
  const std::vector<Certificate> all = read_certificates(pem);
  if (all.empty()) return no_certificate();
  return pem_of(all[0].get());
}

absl::Status check_credentials(const CertificateAndKey& own, std::string_view authorities, WallSeconds now) {
  const std::vector<Certificate> chain = read_certificates(own.certificate);
  if (chain.empty()) return absl::FailedPreconditionError("the certificate's file has no certificate in PEM form");
  const absl::StatusOr<CertificateInfo> info = info_of(chain[0].get());
  if (!info.ok()) return absl::FailedPreconditionError(info.status().message());
  if (info->is_authority) {
    return absl::FailedPreconditionError(
        "the certificate is the authority's: have one issued for this program (skuactl cert issue ROLE NAME)");
  }
  const Key key = read_key(own.key);
  if (key == nullptr || X509_check_private_key(chain[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::FailedPreconditionError("the private key is missing, has a password, or is another certificate's");
  }
  if (now >= info->valid.until) {
    return absl::FailedPreconditionError(absl::StrCat("the certificate expired at ", wall_time_text(info->valid.until),
                                                      ": have a new one issued (skuactl cert issue)"));
  }
  if (now < info->valid.from) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the certificate is not valid before ", wall_time_text(info->valid.from), ": is this machine's clock right?"));
  }
  return verify(chain, authorities, now);
}

absl::Status check_signed_by(std::string_view chain, std::string_view authorities, WallSeconds now) {
  const std::vector<Certificate> parsed = read_certificates(chain);
  return parsed.empty() ? absl::FailedPreconditionError("there is no certificate in PEM form")
                        : verify(parsed, authorities, now);
}

std::string expiry_trouble(const CertificateInfo& info, WallSeconds now) {
  const WallSeconds left = info.valid.until - now;
  if (left > std::min(kExpirySoonS, (info.valid.until - issued_at(info)) / 8)) return "";
  const std::string until = wall_time_text(info.valid.until);
  if (left <= 0) {
    return absl::StrCat("expired at ", until,
                        ": no new connection can be made with it; have a new one issued, into the same files");
  }
  return absl::StrCat("expires at ", until, ": have a new one issued, into the same files");
}

WallSeconds renewal_time(const CertificateInfo& info) {
  return issued_at(info) + (info.valid.until - issued_at(info)) / 2;
}

std::string wall_time_text(WallSeconds at) {
  const std::time_t time = at;
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 64> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return {text.data(), size};
}

}  // namespace skua::control
