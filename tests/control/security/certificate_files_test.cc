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

TEST_F(CertificateFiles, AKeyIsForItsOwner_AndPerhapsItsGroup) {
  ASSERT_TRUE(load_or_make_key(files_.key).ok());
  for (const mode_t mode : {0400U, 0600U, 0440U, 0640U, 0700U}) {
    ASSERT_EQ(::chmod(files_.key.c_str(), mode), 0);
    EXPECT_TRUE(check_key_is_kept(files_.key).ok()) << mode;
  }
  for (const mode_t mode : {0604U, 0644U, 0620U, 0660U, 0601U}) {
    ASSERT_EQ(::chmod(files_.key.c_str(), mode), 0);
    const absl::Status refused = check_key_is_kept(files_.key);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("chmod 600 " + files_.key));
  }
  EXPECT_TRUE(check_key_is_kept(files_.key + ".none").ok());
}

TEST_F(CertificateFiles, AFileInADirectoryThatCannotBeWrittenCannotBeReplaced) {
  ASSERT_TRUE(load_or_make_key(files_.key).ok());  // makes the directory
  EXPECT_TRUE(check_can_be_replaced(files_.certificate).ok()) << "it need not be there";
  // Of /proc, which takes no files, also from root.
  const absl::Status refused = check_can_be_replaced("/proc/self/cert.pem");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("cannot be renewed"));
}

TEST_F(CertificateFiles, AReplacedFileKeepsItsMode) {
  ASSERT_TRUE(load_or_make_key(files_.key).ok());
  ASSERT_TRUE(replace_certificate_file(files_.certificate, "first").ok());
  ASSERT_EQ(::chmod(files_.certificate.c_str(), 0620), 0);
  ASSERT_TRUE(replace_certificate_file(files_.certificate, "second").ok());
  EXPECT_EQ(mode_of(files_.certificate), 0620U);
}

TEST_F(CertificateFiles, ASymbolicLinkStays_AndWhatItLeadsToIsReplaced) {
  ASSERT_TRUE(load_or_make_key(files_.key).ok());
  const std::string target = directory_.path() + "/target.pem";
  ASSERT_TRUE(replace_certificate_file(target, "first").ok());
  std::filesystem::create_symlink("../../target.pem", files_.certificate);
  ASSERT_TRUE(replace_certificate_file(files_.certificate, "second").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(files_.certificate));
  EXPECT_EQ(*read_certificate_file(target), "second");
}

TEST_F(CertificateFiles, AFileWithAKeyIsNotReplacedByACertificate) {
  const std::string key = *load_or_make_key(files_.key);
  ASSERT_TRUE(replace_certificate_file(files_.certificate, "a certificate").ok());
  EXPECT_TRUE(check_holds_no_key(files_.certificate, files_.key).ok());
  const absl::Status same = check_holds_no_key(files_.key, directory_.path() + "/node/../node/certificate/key.pem");
  EXPECT_EQ(same.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(same.message()), HasSubstr("copy the key into a file of its own"));
  ASSERT_TRUE(replace_certificate_file(files_.certificate, "a certificate\n" + key).ok());
  EXPECT_EQ(check_holds_no_key(files_.certificate, files_.key).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CertificateFiles, ADirectoryHasOneOwner) {
  const std::string cluster = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";
  const std::string directory = directory_.path() + "/node/certificate";
  EXPECT_EQ(*owner_of_directory(directory), std::nullopt);
  ASSERT_TRUE(load_or_make_key(files_.key).ok());
  const auto authority = make_authority(cluster, {0, 4'000'000'000});
  const Identity app{cluster, Role::kClient, "app"};
  const auto issued = issue_certificate(*authority, app, {}, {0, 4'000'000'000});
  ASSERT_TRUE(issued.ok()) << issued.status();
  ASSERT_TRUE(replace_certificate_file(files_.certificate, issued->certificate).ok());
  EXPECT_EQ(*owner_of_directory(directory), app);
  for (const std::string& strange : {authority->certificate, std::string("text")}) {
    ASSERT_TRUE(replace_certificate_file(files_.certificate, strange).ok());
    EXPECT_EQ(owner_of_directory(directory).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  std::filesystem::remove(files_.certificate);
  ASSERT_TRUE(replace_certificate_file(directory + "/ca.key", authority->key).ok());
  EXPECT_THAT(std::string(owner_of_directory(directory).status().message()), HasSubstr("ca.key"));
}

TEST_F(CertificateFiles, ErrorsNameThePath) {
  const absl::Status nowhere = replace_certificate_file(files_.certificate, "text");
  EXPECT_FALSE(nowhere.ok());
  EXPECT_THAT(std::string(nowhere.message()), HasSubstr("node/certificate/cert.pem"));
  EXPECT_THAT(std::string(load_or_make_key("/proc/none/key.pem").status().message()), HasSubstr("/proc/none"));
}

}  // namespace
}  // namespace skua::control
