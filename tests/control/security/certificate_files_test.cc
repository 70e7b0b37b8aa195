#include "control/security/certificate_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "control/security/certificates.h"
#include "tests/control/temp_dir.h"

namespace skua::control {
namespace {

using testing::HasSubstr;

unsigned mode_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 0777U;
}

class CertificateFiles : public testing::Test {
 protected:
  TempDir directory_;
  const CredentialFiles files_ = certificate_files_in(directory_.path() + "/node/certificate");
};

TEST_F(CertificateFiles, TheKeyIsMadeOnce_AndForItsOwnerOnly) {
  const auto made = load_or_make_key(files_.key);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(make_certificate_request(*made).ok());
  EXPECT_EQ(mode_of(files_.key), 0600U);
  EXPECT_EQ(mode_of(directory_.path() + "/node/certificate"), 0700U);
  EXPECT_EQ(*load_or_make_key(files_.key), *made);
}

TEST_F(CertificateFiles, AreReplacedAsAWhole) {
  ASSERT_TRUE(load_or_make_key(files_.key).ok());
  EXPECT_EQ(read_certificate_file(files_.certificate).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(replace_certificate_file(files_.certificate, "a long first one").ok());
  // What an attempt that was interrupted left behind is in nobody's way.
  std::filesystem::copy_file(files_.certificate, files_.certificate + ".new");
  ASSERT_TRUE(replace_certificate_file(files_.certificate, "short").ok());
  EXPECT_EQ(*read_certificate_file(files_.certificate), "short");
  EXPECT_FALSE(std::filesystem::exists(files_.certificate + ".new"));
}

TEST_F(CertificateFiles, ErrorsNameThePath) {
  const absl::Status nowhere = replace_certificate_file(files_.certificate, "text");
  EXPECT_FALSE(nowhere.ok());
  EXPECT_THAT(std::string(nowhere.message()), HasSubstr("node/certificate/cert.pem"));
  EXPECT_THAT(std::string(load_or_make_key("/proc/none/key.pem").status().message()), HasSubstr("/proc/none"));
}

}  // namespace
}  // namespace skua::control
