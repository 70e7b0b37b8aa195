#include "control/security/certificate_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/security/certificates.h"

namespace skua::control {
namespace {

constexpr size_t kCertificateFileMax = 1 << 20;

absl::Status system_error(const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, path);
}

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

absl::Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status sync_directory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(directory);
  absl::Status status = ::fsync(fd) == 0 ? absl::OkStatus() : system_error(directory);
  ::close(fd);
  return status;
}

/// Makes the directory (mode 0700) and those above it, so that they are still there after a power loss.
absl::Status make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> missing;
  for (auto at = directory; !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path()) {
    if (error) return absl::ErrnoToStatus(error.value(), at.string());
    missing.push_back(at);
  }
  if (std::filesystem::create_directories(directory, error)) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return absl::ErrnoToStatus(error.value(), directory.string());
  for (const auto& made : missing) {
    if (absl::Status status = sync_directory(directory_of(made.string())); !status.ok()) return status;
  }
  return absl::OkStatus();
}

/// As the file that is replaced: whoever could read that one can read the new one.
absl::Status keep_owner_and_mode(int fd, const struct stat& replaced) {
  // Only root can give a file away.
  if (::fchown(fd, replaced.st_uid, replaced.st_gid) != 0 && errno != EPERM) return system_error("chown");
  return ::fchmod(fd, replaced.st_mode & 0777U) == 0 ? absl::OkStatus() : system_error("chmod");
}

/// `mode`: of a file that was not there.
absl::Status replace(const std::string& name, std::string_view text, mode_t mode) {
  // A symbolic link stays, and what it leads to is replaced.
  std::error_code error;
  const std::string path = std::filesystem::weakly_canonical(name, error).string();
  if (error) return absl::ErrnoToStatus(error.value(), name);
  struct stat replaced {};
  const bool was_there = ::stat(path.c_str(), &replaced) == 0;
  const std::string aside = path + ".new";
  // Whatever an interrupted attempt left there may have another mode.
  ::unlink(aside.c_str());
  const int fd = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return system_error(aside);
  absl::Status status = was_there ? keep_owner_and_mode(fd, replaced) : absl::OkStatus();
  if (status.ok()) status = write_all(fd, text);
  if (status.ok() && ::fsync(fd) != 0) status = system_error(aside);
  if (::close(fd) != 0 && status.ok()) status = system_error(aside);
  if (status.ok() && std::rename(aside.c_str(), path.c_str()) != 0) status = system_error(path);
  if (status.ok()) return sync_directory(directory_of(path));
  ::unlink(aside.c_str());
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

CredentialFiles certificate_files_in(const std::string& directory) {
  return {directory + "/cert.pem", directory + "/key.pem", directory + "/ca.pem"};
}

absl::StatusOr<std::string> read_certificate_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(path);
  std::string text(kCertificateFileMax, '\0');
  size_t size = 0;
  ssize_t got = 1;
  while (got > 0 && size < text.size()) {
    got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0)
      size += static_cast<size_t>(got);
  }
  absl::Status status = got < 0 ? system_error(path) : absl::OkStatus();
  ::close(fd);
  if (!status.ok()) return status;
  text.resize(size);
  return text;
}

absl::StatusOr<std::string> load_or_make_key(const std::string& path) {
  absl::StatusOr<std::string> there = read_certificate_file(path);
  if (!absl::IsNotFound(there.status())) return there;
  if (absl::Status made = make_directory(directory_of(path)); !made.ok()) return made;
  absl::StatusOr<std::string> key = make_private_key();
  if (!key.ok()) return key;
  if (absl::Status status = replace(path, *key, 0600); !status.ok()) return status;
  return key;
}

absl::StatusOr<std::optional<Identity>> owner_of_directory(const std::string& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(directory + "/ca.key", ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, " is the directory of an authority, because ca.key is there: give another directory"));
  }
  const std::string path = certificate_files_in(directory).certificate;
  const absl::StatusOr<std::string> text = read_certificate_file(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  const absl::StatusOr<CertificateInfo> info = inspect_certificate(*text);
  if (!info.ok() || !info->identity.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is there, and is no certificate of a program of Skua's: give another directory"));
  }
  return info->identity;
}

absl::Status check_key_is_kept(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || (about.st_mode & (S_IRWXO | S_IWGRP)) == 0) return absl::OkStatus();
  // A mount of a container's secrets says how it shows them, and this program cannot change it.
  struct statvfs mount {};
  const bool is_read_only = ::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0;
  if (is_read_only || (geteuid() != 0 && geteuid() != about.st_uid)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the private key ", path, " is open to others than its owner: chmod 600 ", path));
}

absl::Status check_can_be_replaced(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, ignored);
  std::string probe = absl::StrCat((target.empty() ? std::filesystem::path(path) : target).string(), ".XXXXXX");
  // Rights alone do not tell: the file system may be read-only.
  const int fd = ::mkostemp(probe.data(), O_CLOEXEC);
  if (fd >= 0) {
    ::close(fd);
    ::unlink(probe.c_str());
    return absl::OkStatus();
  }
  const std::string why = std::generic_category().message(errno);
  return absl::FailedPreconditionError(
      absl::StrCat(path, " cannot be renewed: this program cannot make a file beside it (", why,
                   "). Put the certificate where it can, or renew it otherwise (skuactl cert renew)"));
}

absl::Status check_holds_no_key(const std::string& path, const std::string& key) {
  const absl::StatusOr<std::string> text = read_certificate_file(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  std::error_code ignored;
  if (!std::filesystem::equivalent(path, key, ignored) && !absl::StrContains(*text, "PRIVATE KEY-----")) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " holds a private key, which would be lost when the file is replaced: copy the key into a ",
                   "file of its own (mode 0600), name that with --key, and remove the key from ", path));
}

absl::Status replace_certificate_file(const std::string& path, std::string_view text) {
  return replace(path, text, 0644);
}

}  // namespace skua::control
