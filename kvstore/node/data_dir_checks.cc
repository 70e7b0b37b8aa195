#include "kvstore/node/data_dir_checks.h"

#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnAll = "let that user own the data directory and all that is in it (chown -R)";

absl::Status no_access(int error, const std::string& what, const char* way_out) {
  const std::string text =
      absl::StrCat("--data-dir: ", what, ": ", std::error_code(error, std::generic_category()).message());
  if (error == EROFS) {
    return absl::PermissionDeniedError(absl::StrCat(text, "; mount it for writing, or give another directory"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(text, "; this process has user ", ::geteuid(), ": ", way_out, ", or give another directory"));
}

absl::Status check_part(const fs::directory_entry& part) {
  std::error_code ignored;
  const int wanted = R_OK | W_OK | (part.is_directory(ignored) ? X_OK : 0);
  const int error = ::access(part.path().c_str(), wanted) == 0 ? 0 : errno;
  if (error != EACCES && error != EROFS) return absl::OkStatus();
  return no_access(error, absl::StrCat("no access to ", part.path().string()), kOwnAll);
}

/// A node that ran as another user once (often by sudo) has left files that belong to that user. Only names that a node
/// creates are checked: other entries, such as lost+found, may belong to anybody.
absl::Status check_parts(const std::string& path) {
  for (const char* name : {"skua.lock", "identity.toml", "state", "views", "unsynced", "shards", "snapshots", "copies",
                           "log", "certificate"}) {
    std::error_code error;
    const fs::directory_entry part(absl::StrCat(path, "/", name), error);
    absl::Status status = check_part(part);
    if (!status.ok()) return status;
    if (!part.is_directory(error)) continue;
    for (fs::directory_iterator it(part, error), end; !error && it != end; it.increment(error)) {
      if (status = check_part(*it); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string nearest_directory(const std::string& path) {
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

absl::StatusOr<bool> data_dir_exists(const std::string& path) {
  std::error_code error;
  const bool there = fs::exists(fs::symlink_status(path, error));
  if (there && !fs::exists(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data-dir ", path, " is a link to something that is not there: make that, or mend the link"));
  }
  const std::string above = nearest_directory(path);
  if (!fs::is_directory(above, error)) {
    return absl::InvalidArgumentError(absl::StrCat("--data-dir ", path, ": ", above,
                                                   " is a file: give a directory, which is made if it is not there"));
  }
  if (::access(above.c_str(), W_OK | X_OK) != 0) {
    const int denied = errno;
    if (there) return no_access(denied, absl::StrCat("no writing in ", path), kOwnAll);
    return no_access(denied, absl::StrCat(path, " cannot be made in ", above),
                     "make it, and let that user own it (chown)");
  }
  if (!there) return false;
  if (absl::Status parts = check_parts(path); !parts.ok()) return parts;
  return true;
}

absl::Status check_has_no_data(const std::string& path) {
  std::error_code error;
  for (const char* name : {"shards", "log", "state"}) {
    if (!fs::exists(absl::StrCat(path, "/", name), error)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the data directory ", path, " has a node's data (", name,
        ") but not its identity.toml, without which nobody knows whose they are: restore the file (copy all "
        "of a directory or nothing), or give an empty --data-dir"));
  }
  return absl::OkStatus();
}

bool is_in_memory(const std::string& path) {
  struct statfs about {};
  if (::statfs(path.c_str(), &about) != 0) return false;
  const auto type = static_cast<uint64_t>(about.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

}  // namespace skua::kv
