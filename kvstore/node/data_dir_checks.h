// Mistakes with a node's data directory that are found before anything is made in it.
#ifndef SKUA_KVSTORE_NODE_DATA_DIR_CHECKS_H_
#define SKUA_KVSTORE_NODE_DATA_DIR_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// Whether `path` is there. INVALID_ARGUMENT: it, or what should be a directory above it, is something else.
/// PERMISSION_DENIED: this process may not write there, or not make it, or parts of it belong to another user. Messages
/// say what to do.
[[nodiscard]] absl::StatusOr<bool> data_dir_exists(const std::string& path);

/// For a directory without an identity: FAILED_PRECONDITION if it has a node's data all the same, which a new node
/// would take for its own.
[[nodiscard]] absl::Status check_has_no_data(const std::string& path);

/// `path`, or the nearest directory above it that is there.
[[nodiscard]] std::string nearest_directory(const std::string& path);

/// True if what is written to the file system of `path` is gone when the machine stops (tmpfs, ramfs).
[[nodiscard]] bool is_in_memory(const std::string& path);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_DATA_DIR_CHECKS_H_
