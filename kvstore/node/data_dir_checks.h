// Checks of a node's data directory. They run before the node creates anything in the directory.
#ifndef SKUA_KVSTORE_NODE_DATA_DIR_CHECKS_H_
#define SKUA_KVSTORE_NODE_DATA_DIR_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// True if `path` exists. The message of an error says what to do.
/// INVALID_ARGUMENT: `path` is a dangling link, or a file stands where a directory is needed.
/// PERMISSION_DENIED: this process may not write there, may not create the directory, or has no access to files in it
/// that belong to another user, or the file system is read-only.
[[nodiscard]] absl::StatusOr<bool> data_dir_exists(const std::string& path);

/// For a directory without an identity file. FAILED_PRECONDITION: the directory holds data of a node. A new node would
/// take these data for its own.
[[nodiscard]] absl::Status check_has_no_data(const std::string& path);

/// `path`, or its nearest ancestor that exists.
[[nodiscard]] std::string nearest_directory(const std::string& path);

/// True if the file system of `path` lives in memory (tmpfs, ramfs), so that its files are lost when the machine stops.
[[nodiscard]] bool is_in_memory(const std::string& path);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_DATA_DIR_CHECKS_H_
