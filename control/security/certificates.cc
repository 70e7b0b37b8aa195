// Certificates that are made. Those that are there: certificates_read.cc.
#include "control/security/certificates.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/uuid.h"
#include "control/security/certificate_parts.h"
#include "rpc/base/status.h"

namespace skua::control {

namespace {

using certificate::Certificate;
using certificate::Extension;
using certificate::hash_of_key;
using certificate::kAuthorityUri;
using certificate::kClockSkewS;
using certificate::Key;
using certificate::openssl_error;
using certificate::pem_of;
using certificate::read_certificates;
using certificate::read_key;
using certificate::Request;

constexpr int64_t kVersion3 = 2;
constexpr size_t kSerialBytes = 16;

absl::StatusOr<CertificateAndKey> as_pem(X509* certificate, EVP_PKEY* key) {
  absl::StatusOr<std::string> certificate_text = pem_of(certificate);
  if (!certificate_text.ok()) return certificate_text.status();
  absl::StatusOr<std::string> key_text = pem_of(key);
  if (!key_text.ok()) return key_text.status();
  return CertificateAndKey{*std::move(certificate_text), *std::move(key_text)};
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

/// `hosts` have been checked: a comma would begin another name. `uri`: nothing if empty.
std::string alternative_names(const std::string& uri, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  if (!uri.empty()) names.push_back(absl::StrCat("URI:", uri));
  for (const std::string& host : hosts) {
    in6_addr address{};
    const bool is_ip =
        inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
    names.push_back(absl::StrCat(is_ip ? "IP:" : "DNS:", host));
  }
  return absl::StrJoin(names, ",");
}

constexpr size_t kHostBytesMax = 253;

/// An authority signs it.
bool is_host(std::string_view host) {
  if (host.size() > kHostBytesMax) return false;
  // A certificate may be for all names of a domain.
  if (host.starts_with("*.")) host.remove_prefix(2);
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == ':' || c == '_';
  });
}

std::string quoted_host(const std::string& host) {
  return absl::StrCat("\"", absl::CHexEscape(host.substr(0, kHostBytesMax)), "\"");
}

absl::Status check_hosts(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    if (is_host(host)) continue;
    return absl::InvalidArgumentError(absl::StrCat(quoted_host(host), " is neither a host's name nor an IP address"));
  }
  return absl::OkStatus();
}

/// A certificate without extensions, signed later.
absl::StatusOr<Certificate> blank(const std::string& common_name, EVP_PKEY* key, ValidTime valid) {
  Certificate made(X509_new());
  std::array<unsigned char, kSerialBytes> serial{};
  if (made == nullptr || RAND_bytes(serial.data(), static_cast<int>(serial.size())) != 1) {
    return openssl_error("no random serial number");
  }
  serial[0] &= 0x7f;  // positive
  serial[0] |= 0x01;  // and not short
  BIGNUM* number = BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr);
  const bool numbered = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(made.get())) != nullptr;
  BN_free(number);
  X509_NAME* const subject = X509_get_subject_name(made.get());
  const auto* const text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  if (!numbered || X509_set_version(made.get(), kVersion3) != 1 || X509_set_pubkey(made.get(), key) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(made.get()), valid.from - kClockSkewS) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(made.get()), valid.until) == nullptr ||
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text, -1, -1, 0) != 1) {
    return openssl_error("a certificate cannot be made");
  }
  return made;
}

/// Who signs.
struct Issuer {
  Certificate certificate;
  Key key;
  CertificateInfo info;
};

absl::StatusOr<Issuer> read_issuer(const CertificateAndKey& authority) {
  std::vector<Certificate> certificates = read_certificates(authority.certificate);
  Key key = read_key(authority.key);
  if (certificates.empty() || key == nullptr || X509_check_private_key(certificates[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the authority's certificate and key do not belong together");
  }
  absl::StatusOr<CertificateInfo> info = inspect_certificate(authority.certificate);
  if (!info.ok()) return info.status();
  if (!info->is_authority) return absl::InvalidArgumentError("the authority's certificate is not an authority's");
  return Issuer{std::move(certificates[0]), std::move(key), *std::move(info)};
}

/// Whom a certificate is for, in the words of X.509.
struct Subject {
  std::string common_name;
  std::string alternative_names;
  const char* usage;
};

absl::StatusOr<Subject> member_subject(const Issuer& issuer, const Identity& identity,
                                       const std::vector<std::string>& hosts) {
  if (absl::Status status = check_identity(identity); !status.ok()) return status;
  if (absl::Status status = check_hosts(hosts); !status.ok()) return status;
  if (issuer.info.cluster_id != identity.cluster_id) {
    return absl::InvalidArgumentError(
        absl::StrCat("the authority is that of cluster ", issuer.info.cluster_id, ", not of ", identity.cluster_id));
  }
  const bool serves = identity.role == Role::kControl || identity.role == Role::kNode;
  return Subject{identity.describe(), alternative_names(identity_uri(identity), hosts),
                 serves ? "serverAuth,clientAuth" : "clientAuth"};
}

absl::StatusOr<Certificate> sign(const Issuer& issuer, EVP_PKEY* key, const Subject& subject, ValidTime valid) {
  constexpr size_t kCommonNameMax = 64;  // X.520
  valid.until = std::min(valid.until, issuer.info.valid.until);
  if (valid.until <= valid.from) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the authority expired at ", wall_time_text(issuer.info.valid.until), ": make a new one (docs/security.md)"));
  }
  absl::StatusOr<Certificate> made = blank(subject.common_name.substr(0, kCommonNameMax), key, valid);
  if (!made.ok()) return made.status();
  X509* const certificate = made->get();
  X509* const of_issuer = issuer.certificate.get();
  if (X509_set_issuer_name(certificate, X509_get_subject_name(of_issuer)) != 1 ||
      !add_extension(certificate, of_issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(certificate, of_issuer, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(certificate, of_issuer, NID_ext_key_usage, subject.usage) ||
      !add_extension(certificate, of_issuer, NID_authority_key_identifier, "keyid:always") ||
      !add_extension(certificate, of_issuer, NID_subject_alt_name, subject.alternative_names) ||
      X509_sign(certificate, issuer.key.get(), EVP_sha256()) == 0) {
    return openssl_error("a certificate cannot be issued");
  }
  return made;
}

absl::StatusOr<CertificateAndKey> sign_for_new_key(const Issuer& issuer, const Subject& subject, ValidTime valid) {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return openssl_error("no key can be made");
  const absl::StatusOr<Certificate> made = sign(issuer, key.get(), subject, valid);
  if (!made.ok()) return made.status();
  return as_pem(made->get(), key.get());
}

/// The public key that a request is for, if the request is signed with its private key.
absl::StatusOr<Key> key_of_request(std::string_view request) {
  absl::Status refused =
      absl::InvalidArgumentError("not a request for a certificate of a P-256 key, signed with that key");
  if (request.size() > kCertificateRequestMax) return refused;
  const auto* bytes = reinterpret_cast<const unsigned char*>(request.data());
  const auto* const end = bytes + request.size();
  const Request parsed(d2i_X509_REQ(nullptr, &bytes, static_cast<long>(request.size())));
  Key key(parsed == nullptr || bytes != end ? nullptr : X509_REQ_get_pubkey(parsed.get()));
  std::array<char, 32> group{};
  const bool good = key != nullptr && EVP_PKEY_get_base_id(key.get()) == EVP_PKEY_EC &&
                    EVP_PKEY_get_group_name(key.get(), group.data(), group.size(), nullptr) == 1 &&
                    std::string_view(group.data()) == "prime256v1" && X509_REQ_verify(parsed.get(), key.get()) == 1;
  ERR_clear_error();
  if (!good) return refused;
  return key;
}

}  // namespace

absl::StatusOr<CertificateAndKey> make_authority(const std::string& cluster_id, ValidTime valid) {
  if (!is_uuid(cluster_id)) return absl::InvalidArgumentError("the cluster id is not a lower-case UUID");
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return openssl_error("no key can be made");
  absl::StatusOr<Certificate> made = blank(absl::StrCat("Skua cluster ", cluster_id), key.get(), valid);
  if (!made.ok()) return made.status();
  X509* const certificate = made->get();
  if (X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1 ||
      !add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(certificate, certificate, NID_subject_key_identifier, "hash") ||
      !add_extension(certificate, certificate, NID_subject_alt_name,
                     absl::StrCat("URI:", absl_view(kAuthorityUri), cluster_id)) ||
      X509_sign(certificate, key.get(), EVP_sha256()) == 0) {
    return openssl_error("an authority cannot be made");
  }
  return as_pem(certificate, key.get());
}

absl::StatusOr<CertificateAndKey> issue_certificate(const CertificateAndKey& authority, const Identity& identity,
                                                    const std::vector<std::string>& hosts, ValidTime valid) {
  const absl::StatusOr<Issuer> issuer = read_issuer(authority);
  if (!issuer.ok()) return issuer.status();
  const absl::StatusOr<Subject> subject = member_subject(*issuer, identity, hosts);
  return subject.ok() ? sign_for_new_key(*issuer, *subject, valid) : subject.status();
}

absl::StatusOr<CertificateAndKey> issue_server_certificate(const CertificateAndKey& authority, const std::string& name,
                                                           const std::vector<std::string>& hosts, ValidTime valid) {
  const absl::StatusOr<Issuer> issuer = read_issuer(authority);
  if (!issuer.ok()) return issuer.status();
  const Identity named{issuer->info.cluster_id, Role::kClient, name};
  if (absl::Status status = check_identity(named); !status.ok()) return status;
  if (absl::Status status = check_hosts(hosts); !status.ok()) return status;
  if (hosts.empty()) return absl::InvalidArgumentError("a server has a name or an address by which clients reach it");
  return sign_for_new_key(*issuer, {name, alternative_names("", hosts), "serverAuth"}, valid);
}

absl::StatusOr<std::string> make_private_key() {
  const Key key(EVP_EC_gen("P-256"));
  return key == nullptr ? openssl_error("no key can be made") : pem_of(key.get());
}

absl::StatusOr<std::string> make_certificate_request(std::string_view key) {
  const Key private_key = read_key(key);
  if (private_key == nullptr) return absl::InvalidArgumentError("not a private key in PEM form");
  const Request request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_pubkey(request.get(), private_key.get()) != 1 ||
      X509_REQ_sign(request.get(), private_key.get(), EVP_sha256()) == 0) {
    return openssl_error("a request for a certificate cannot be made");
  }
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_REQ(request.get(), &bytes);
  if (size <= 0) return openssl_error("a request for a certificate cannot be written");
  std::string text(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return text;
}

absl::StatusOr<std::string> inspect_certificate_request(std::string_view request) {
  const absl::StatusOr<Key> key = key_of_request(request);
  if (!key.ok()) return key.status();
  return hash_of_key(key->get());
}

absl::StatusOr<std::string> sign_certificate_request(const CertificateAndKey& authority, std::string_view request,
                                                     const Identity& identity, ValidTime valid,
                                                     const std::vector<std::string>& hosts) {
  const absl::StatusOr<Issuer> issuer = read_issuer(authority);
  if (!issuer.ok()) return issuer.status();
  const absl::StatusOr<Key> key = key_of_request(request);
  if (!key.ok()) return key.status();
  const absl::StatusOr<Subject> subject = member_subject(*issuer, identity, hosts);
  if (!subject.ok()) return subject.status();
  const absl::StatusOr<Certificate> made = sign(*issuer, key->get(), *subject, valid);
  if (!made.ok()) return made.status();
  return pem_of(made->get());
}

absl::Status check_renewable(const CertificateInfo& info) {
  const auto odd =
      std::find_if_not(info.hosts.begin(), info.hosts.end(), [](const auto& host) { return is_host(host); });
  if (odd == info.hosts.end()) return absl::OkStatus();
  const std::string role(info.identity.has_value() ? role_name(info.identity->role) : "ROLE");
  const std::string name = info.identity.has_value() ? info.identity->name : "NAME";
  return absl::InvalidArgumentError(absl::StrCat(
      "the certificate of ", role, "/", name, " has the name ", quoted_host(*odd),
      ", which the authority of the control plane does not sign, so it cannot be renewed: have another one "
      "made without that name, where the authority is (skuactl cert issue ",
      role, " ", name, " --authority DIR --hosts NAMES), and put certificate and key into the files of this one"));
}

}  // namespace skua::control
