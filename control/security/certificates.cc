#include "control/security/certificates.h"

#include <arpa/inet.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "control/core/uuid.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

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

constexpr int64_t kVersion3 = 2;
constexpr size_t kSerialBytes = 16;
/// An authority names its cluster by such a URI.
constexpr std::string_view kAuthorityUri = "skua://";
/// Clocks of machines differ: a certificate is valid a little before it is issued.
constexpr WallSeconds kClockSkewS = 300;
constexpr WallSeconds kExpirySoonS = 7 * 86'400;

/// What OpenSSL says of its last failure.
absl::Status openssl_error(const char* what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", text.data()));
}

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

Key read_key(std::string_view pem) {
  const Bio bio = bio_of(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

/// All certificates of the text, in order.
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

/// `hosts` have been checked: a comma would begin another name.
std::string alternative_names(const std::string& uri, const std::vector<std::string>& hosts) {
  std::string names = absl::StrCat("URI:", uri);
  for (const std::string& host : hosts) {
    in6_addr address{};
    const bool is_ip =
        inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
    absl::StrAppend(&names, is_ip ? ",IP:" : ",DNS:", host);
  }
  return names;
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

std::string hexadecimal(const unsigned char* bytes, size_t count) {
  return absl::BytesToHexString(std::string(reinterpret_cast<const char*>(bytes), count));
}

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

absl::StatusOr<CertificateInfo> info_of(X509* certificate) {
  CertificateInfo info;
  info.is_authority = X509_check_ca(certificate) == 1;
  AlternativeNames names = names_of(certificate);
  if (names.uris.size() != 1) {
    return absl::InvalidArgumentError("not a certificate of Skua's: it has no name skua://CLUSTER-ID/ROLE/NAME");
  }
  if (info.is_authority) {
    if (!names.uris[0].starts_with(kAuthorityUri)) {
      return absl::InvalidArgumentError("not an authority of a Skua cluster");
    }
    info.cluster_id = names.uris[0].substr(kAuthorityUri.size());
  } else {
    absl::StatusOr<Identity> identity = parse_identity_uri(names.uris[0]);
    if (!identity.ok()) return identity.status();
    info.cluster_id = identity->cluster_id;
    info.identity = *std::move(identity);
  }
  info.hosts = std::move(names.hosts);
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
  absl::StatusOr<CertificateInfo> info = info_of(certificates[0].get());
  if (!info.ok()) return info.status();
  if (!info->is_authority) return absl::InvalidArgumentError("the authority's certificate is not an authority's");
  return Issuer{std::move(certificates[0]), std::move(key), *std::move(info)};
}

absl::StatusOr<Certificate> sign(const Issuer& issuer, EVP_PKEY* key, const Identity& identity,
                                 const std::vector<std::string>& hosts, ValidTime valid) {
  if (absl::Status status = check_identity(identity); !status.ok()) return status;
  if (absl::Status status = check_hosts(hosts); !status.ok()) return status;
  if (issuer.info.cluster_id != identity.cluster_id) {
    return absl::InvalidArgumentError(
        absl::StrCat("the authority is that of cluster ", issuer.info.cluster_id, ", not of ", identity.cluster_id));
  }
  valid.until = std::min(valid.until, issuer.info.valid.until);
  absl::StatusOr<Certificate> made = blank(identity.describe().substr(0, 64), key, valid);
  if (!made.ok()) return made.status();
  X509* const certificate = made->get();
  X509* const of_issuer = issuer.certificate.get();
  const bool serves = identity.role == Role::kControl || identity.role == Role::kNode;
  if (X509_set_issuer_name(certificate, X509_get_subject_name(of_issuer)) != 1 ||
      !add_extension(certificate, of_issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(certificate, of_issuer, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(certificate, of_issuer, NID_ext_key_usage, serves ? "serverAuth,clientAuth" : "clientAuth") ||
      !add_extension(certificate, of_issuer, NID_authority_key_identifier, "keyid:always") ||
      !add_extension(certificate, of_issuer, NID_subject_alt_name, alternative_names(identity_uri(identity), hosts)) ||
      X509_sign(certificate, issuer.key.get(), EVP_sha256()) == 0) {
    return openssl_error("a certificate cannot be issued");
  }
  return made;
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
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return openssl_error("no key can be made");
  const absl::StatusOr<Certificate> made = sign(*issuer, key.get(), identity, hosts, valid);
  if (!made.ok()) return made.status();
  return as_pem(made->get(), key.get());
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
  const absl::StatusOr<Certificate> made = sign(*issuer, key->get(), identity, hosts, valid);
  if (!made.ok()) return made.status();
  return pem_of(made->get());
}

absl::StatusOr<CertificateInfo> inspect_certificate(std::string_view pem) {
  const std::vector<Certificate> all = read_certificates(pem);
  if (all.empty())
    return absl::InvalidArgumentError("there is no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
  return info_of(all[0].get());
}

absl::StatusOr<std::string> first_certificate(std::string_view pem) {
  const std::vector<Certificate> all = read_certificates(pem);
  if (all.empty()) return absl::InvalidArgumentError("there is no certificate in PEM form");
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
