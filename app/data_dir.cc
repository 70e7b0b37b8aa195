#include "app/data_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include <toml++/toml.h>

#include "absl/strings/str_cat.h"
#include "app/config_internal.h"
#include "app/file.h"
#include "app/uuid.h"

namespace skua::app {

namespace {

constexpr size_t kIdentityBytesMax = 64 << 10;

/// As people know it.
std::string program_of(const std::string& role) {
  return role == "control" ? "skua-control" : role == "node" ? "skuad" : role;
}

std::string identity_path(const std::string& directory) {
  return directory + "/identity.toml";
}

absl::Status damaged(const std::string& path, std::string_view reason) {
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", std::string(reason),
                                          "; restore it from a backup, or begin anew with an empty --data-dir"));
}

// A uuid or, where `may_be_empty`, nothing.
absl::Status check_uuid(const std::string& path, const char* key, const std::string& value, bool may_be_empty) {
  if ((value.empty() && may_be_empty) || parse_uuid(value).ok()) return absl::OkStatus();
  return damaged(path, absl::StrCat(key, " is not a UUID"));
}

absl::StatusOr<DataDirIdentity> parse_identity(const std::string& path, const std::string& text) {
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return damaged(path, error.description());
  }
  DataDirIdentity identity;
  identity.role = table["role"].value_or(std::string());
  identity.format_version = table["format_version"].value_or(int64_t{0});
  identity.node_uuid = table["node_uuid"].value_or(std::string());
  identity.cluster_id = table["cluster_id"].value_or(std::string());
  identity.secret = table["secret"].value_or(std::string());
  if (identity.role.empty()) return damaged(path, "it has no role");
  if (identity.format_version < 1) return damaged(path, "it has no format_version");
  absl::Status status = check_uuid(path, "node_uuid", identity.node_uuid, false);
  if (status.ok()) status = check_uuid(path, "cluster_id", identity.cluster_id, true);
  if (status.ok()) status = check_uuid(path, "secret", identity.secret, true);
  if (!status.ok()) return status;
  return identity;
}

// Closes on every way out; the first error wins.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status write_all(const std::string& path, std::string_view text) {
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.fd() < 0) return absl::ErrnoToStatus(errno, absl::StrCat("creating ", path));
  while (!text.empty()) {
    const ssize_t wrote = write(file.fd(), text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return absl::ErrnoToStatus(errno, absl::StrCat("writing ", path));
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  if (fsync(file.fd()) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("syncing ", path));
  return absl::OkStatus();
}

absl::Status sync_directory(const std::string& directory) {
  const File file(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.fd() < 0 || fsync(file.fd()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("syncing the directory ", directory));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<DataDirIdentity>> read_identity(const std::string& directory) {
  const std::string path = identity_path(directory);
  const absl::StatusOr<std::string> text = read_file(path, kIdentityBytesMax);
  if (absl::IsNotFound(text.status())) return std::optional<DataDirIdentity>();
  if (!text.ok()) return text.status();
  absl::StatusOr<DataDirIdentity> identity = parse_identity(path, *text);
  if (!identity.ok()) return identity.status();
  return std::optional<DataDirIdentity>(*std::move(identity));
}

absl::Status write_identity(const std::string& directory, const DataDirIdentity& identity) {
  const std::string path = identity_path(directory);
  const std::string aside = path + ".new";
  const std::string text = absl::StrCat(
      "# Written by Skua. Do not edit: a node that forgets who it is loses its shards.\n",
      "role = ", toml_quoted(identity.role), "\nformat_version = ", identity.format_version,
      "\nnode_uuid = ", toml_quoted(identity.node_uuid), "\ncluster_id = ", toml_quoted(identity.cluster_id),
      "\nsecret = ", toml_quoted(identity.secret), "\n");
  if (absl::Status status = write_all(aside, text); !status.ok()) return status;
  if (rename(aside.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("renaming ", aside, " to ", path));
  }
  return sync_directory(directory);
}

absl::StatusOr<DataDirIdentity> open_identity(const std::string& directory, const std::string& role,
                                              int64_t newest_format_version, const std::string& fresh_uuid) {
  absl::StatusOr<std::optional<DataDirIdentity>> found = read_identity(directory);
  if (!found.ok()) return found.status();
  if (!found->has_value()) {
    DataDirIdentity fresh{.role = role,
                          .format_version = newest_format_version,
                          .node_uuid = fresh_uuid.empty() ? random_uuid() : fresh_uuid,
                          .cluster_id = "",
                          .secret = random_uuid()};
    if (absl::Status status = write_identity(directory, fresh); !status.ok()) return status;
    return fresh;
  }
  DataDirIdentity& identity = **found;
  if (identity.role != role) {
    return absl::FailedPreconditionError(absl::StrCat("the data directory ", directory, " belongs to a ",
                                                      program_of(identity.role), ", not to a ", program_of(role),
                                                      "; give another --data-dir"));
  }
  if (identity.format_version > newest_format_version) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data directory ", directory, " has format version ", identity.format_version,
                     " and this program knows only up to ", newest_format_version,
                     "; it was written by a newer Skua: use that version or a later one"));
  }
  if (identity.secret.empty()) {
    identity.secret = random_uuid();
    // A full disk must not keep a node from starting: the next start tries again.
    if (!write_identity(directory, identity).ok()) identity.secret.clear();
  }
  return identity;
}

absl::Status adopt_cluster(const std::string& directory, DataDirIdentity& identity, const std::string& cluster_id) {
  if (identity.cluster_id == cluster_id) return absl::OkStatus();
  if (!identity.cluster_id.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data directory ", directory, " belongs to cluster ", identity.cluster_id,
                     ", but the control plane serves cluster ", cluster_id,
                     "; point --control-address at the right cluster, or give an empty --data-dir"));
  }
  DataDirIdentity bound = identity;
  bound.cluster_id = cluster_id;
  if (absl::Status status = write_identity(directory, bound); !status.ok()) return status;
  identity = bound;
  return absl::OkStatus();
}

}  // namespace skua::app
