// An authority in a test, and files of what it issued.
#ifndef SKUA_TESTS_CONTROL_CERTIFICATE_OFFICE_H_
#define SKUA_TESTS_CONTROL_CERTIFICATE_OFFICE_H_

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/security/certificates.h"
#include "control/security/credentials.h"
#include "control/security/identity.h"

namespace skua::control {

inline constexpr const char* kOfficeCluster = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";

/// An authority, and files of what it issued.
class CertificateOffice {
 public:
  static constexpr WallSeconds kDay = 86'400;

  /// Files are made in `directory`; `name` begins their names.
  CertificateOffice(std::string directory, std::string name, std::string cluster = kOfficeCluster)
      : directory_(std::move(directory)),
        name_(std::move(name)),
        cluster_(std::move(cluster)),
        authority_(*make_authority(cluster_, {now(), now() + 100 * kDay})) {}

  /// `hosts`: those that the certificate names.
  CredentialFiles issue(Role role, const std::string& name, ValidTime valid = {now(), now() + kDay},
                        const std::vector<std::string>& hosts = {}) {
    const CertificateAndKey made = *issue_certificate(authority_, {cluster_, role, name}, hosts, valid);
    const std::string stem = absl::StrCat(directory_, "/", name_, "-", ++count_);
    write(absl::StrCat(stem, ".pem"), made.certificate);
    write_key(absl::StrCat(stem, ".key"), made.key);
    write(absl::StrCat(stem, ".ca"), trusted.empty() ? authority_.certificate : trusted);
    return {absl::StrCat(stem, ".pem"), absl::StrCat(stem, ".key"), absl::StrCat(stem, ".ca")};
  }
  /// A new certificate in the same files.
  void renew(const CredentialFiles& files, Role role, const std::string& name) {
    const CertificateAndKey made =
        *issue_certificate(authority_, {cluster_, role, name}, {}, {now(), now() + 90 * kDay});
    write(files.certificate, made.certificate);
    write_key(files.key, made.key);
  }
  [[nodiscard]] const std::string& certificate() const { return authority_.certificate; }
  [[nodiscard]] const CertificateAndKey& authority() const { return authority_; }

  static WallSeconds now() { return std::time(nullptr); }
  static void write_key(const std::string& path, const std::string& text) {
    write(path, text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

  std::string trusted;  // what goes into the authorities' files; empty: this authority

 private:
  const std::string directory_;
  const std::string name_;
  const std::string cluster_;
  const CertificateAndKey authority_;
  int count_ = 0;
};

/// Credentials that load() might refuse: an attacker does not ask.
inline CredentialsPtr unchecked(const CredentialFiles& files) {
  std::ifstream file(files.certificate);
  const std::string pem(std::istreambuf_iterator<char>(file), {});
  return std::make_shared<const Credentials>(files, *inspect_certificate(pem));
}

inline CredentialsPtr loaded(const CredentialFiles& files) {
  auto credentials = Credentials::load(files);
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  return credentials.ok() ? *credentials : nullptr;
}

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_CERTIFICATE_OFFICE_H_
