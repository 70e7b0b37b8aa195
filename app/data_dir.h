// Whose data directory this is.
//
// `<data_dir>/identity.toml` says which role, cluster and node a directory belongs to and in which
// format its files are:
//
//   # Written by Skua. Do not edit: a node that forgets who it is loses its shards.
//   role = "node"
//   format_version = 1
//   node_uuid = "0d2f5f43-..."
//   cluster_id = "7c1e5a6b-..."      # empty until the node has joined its first cluster
//   secret = "51b0c2d9-..."          # what a node proves by that it is the owner of its uuid
//
// Only its owner may read it. Builds that do not know a key leave it alone.
//
// It is replaced as a whole (written aside, fsynced, renamed, directory fsynced), so that a crash
// leaves the old or the new one. A directory of another role or a newer format is refused when it
// is opened; one of another cluster when the cluster is known.
#ifndef SKUA_APP_DATA_DIR_H_
#define SKUA_APP_DATA_DIR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::app {

struct DataDirIdentity {
  /// "node" for skuad, "control" for skua-control.
  std::string role;
  /// Of the files beside the identity; raised when their layout changes.
  int64_t format_version = 1;
  std::string node_uuid;
  /// Empty before the first cluster was joined.
  std::string cluster_id;
  /// A random UUID that is as old as the directory, or as the first start of a build that knows it; empty: that start
  /// had no room on the disk to write it.
  std::string secret = {};
};

/// What is written in `directory`, or empty when it has no identity yet. DATA_LOSS when the file is
/// there but cannot be understood.
[[nodiscard]] absl::StatusOr<std::optional<DataDirIdentity>> read_identity(const std::string& directory);

/// Replaces the identity durably: after OK it survives a power loss. INTERNAL (or
/// RESOURCE_EXHAUSTED for a full disk) names the path and the system's reason.
[[nodiscard]] absl::Status write_identity(const std::string& directory, const DataDirIdentity& identity);

/// The directory's identity; a directory without one gets `fresh_uuid` as its node uuid (a random one if it is empty),
/// a secret and no cluster.
/// FAILED_PRECONDITION when it has another role, or a format newer than `newest_format_version`
/// (the message says which version is needed). Hold the DirectoryLock.
[[nodiscard]] absl::StatusOr<DataDirIdentity> open_identity(const std::string& directory, const std::string& role,
                                                            int64_t newest_format_version,
                                                            const std::string& fresh_uuid = "");

/// Binds the directory to `cluster_id`: writes it when there was none, OK when it is the same,
/// FAILED_PRECONDITION when the directory belongs to another cluster.
[[nodiscard]] absl::Status adopt_cluster(const std::string& directory, DataDirIdentity& identity,
                                         const std::string& cluster_id);

}  // namespace skua::app

#endif  // SKUA_APP_DATA_DIR_H_
