// Names and directories of what a node keeps:
//
//    <data-dir>/shards/<table id>-<shard>/    a shard's database
//    <data-dir>/log/<worker>/                 a worker's log
//
// and the steps by which directories come and go so that a crash leaves them whole or marked as leftovers.
#ifndef SKUA_KVSTORE_STORAGE_SHARD_FILES_H_
#define SKUA_KVSTORE_STORAGE_SHARD_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "kvstore/types/mutation.h"

namespace skua::kv::files {

[[nodiscard]] std::string shards_dir(const std::string& data_dir);
[[nodiscard]] std::string log_dir(const std::string& data_dir, uint32_t worker);

/// "<table_id>-<shard>", and back to its numbers.
[[nodiscard]] std::string shard_name(ShardId id);
[[nodiscard]] std::optional<ShardId> parse_shard_name(const std::string& name);

/// What directories are called while they are made, brought from elsewhere, and removed.
inline constexpr char kNewPrefix[] = ".new-";
inline constexpr char kIngestPrefix[] = ".in-";
inline constexpr char kTrashPrefix[] = ".trash-";
/// Removes what a crash left in `directory` in the middle of these. While nobody is at it.
[[nodiscard]] absl::Status remove_leftovers(const std::string& directory);

// Errors name the path: RESOURCE_EXHAUSTED for a full disk, INTERNAL else.
[[nodiscard]] absl::Status io_error(const char* what, const std::string& path, const std::error_code& code);
[[nodiscard]] absl::Status sync_directory(const std::string& path);
/// OK if there is nothing.
[[nodiscard]] absl::Status remove_tree(const std::string& path);
/// Durable when it returns; `parent` is the directory of both.
[[nodiscard]] absl::Status rename_and_sync(const std::string& from, const std::string& to, const std::string& parent);

}  // namespace skua::kv::files

#endif  // SKUA_KVSTORE_STORAGE_SHARD_FILES_H_
