// Names of the directories in which a node keeps its data:
//
//    <data-dir>/shards/<table id>-<shard>/    a shard's database
//    <data-dir>/log/<worker>/                 a worker's log
//
// and the steps that create and remove directories. After a crash in the middle of these steps a directory is either
// complete or has a name that marks it as a leftover.
#ifndef SKUA_KVSTORE_STORAGE_SHARD_FILES_H_
#define SKUA_KVSTORE_STORAGE_SHARD_FILES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/types/mutation.h"

namespace skua::kv::files {

[[nodiscard]] std::string shards_dir(const std::string& data_dir);
[[nodiscard]] std::string logs_dir(const std::string& data_dir);
[[nodiscard]] std::string log_dir(const std::string& data_dir, uint32_t worker);

/// "<table_id>-<shard>", and the shard of such a name; nullopt for any other name.
[[nodiscard]] std::string shard_name(ShardId id);
[[nodiscard]] std::optional<ShardId> parse_shard_name(const std::string& name);

/// Calls `visit` for each name in the directory, in no order. Errors: as io_error().
[[nodiscard]] absl::Status visit_names(const std::string& directory,
                                       absl::FunctionRef<void(const std::string& name)> visit);

/// The numbers of the logs in a data directory; directories with other names are none of a node's. Errors: as
/// io_error().
[[nodiscard]] absl::StatusOr<std::set<uint32_t>> log_numbers(const std::string& data_dir);
/// There is the database of a shard.
[[nodiscard]] bool has_shards(const std::string& data_dir);
/// DATA_LOSS: a log is missing that the node has made. There are databases, which log 0 is older than, or a log with a
/// higher number. Says what to do.
[[nodiscard]] absl::Status check_no_log_is_missing(const std::string& data_dir);
/// DATA_LOSS: the node has made the shard's database in `shards_dir`, and there is none.
[[nodiscard]] absl::Status missing_database(const std::string& shards_dir, ShardId id);

/// The prefixes that the names of directories have while they are made, received from elsewhere, and removed.
inline constexpr char kNewPrefix[] = ".new-";
inline constexpr char kIngestPrefix[] = ".in-";
inline constexpr char kTrashPrefix[] = ".trash-";
/// Removes the leftovers of these steps from `directory`. Nobody may be working there.
[[nodiscard]] absl::Status remove_leftovers(const std::string& directory);

// The errors name the path. RESOURCE_EXHAUSTED: the disk is full; INTERNAL: anything else.
[[nodiscard]] absl::Status io_error(const char* what, const std::string& path, const std::error_code& code);
/// As above. `error`: an errno.
[[nodiscard]] absl::Status io_error(const char* what, const std::string& path, int error);
/// Makes a file, or the names in a directory, durable.
[[nodiscard]] absl::Status sync(const std::string& path);
/// Removes the directory and everything in it. OK if it does not exist.
[[nodiscard]] absl::Status remove_tree(const std::string& path);
/// Renames `from` to `to`; both lie in the directory `parent`. The new name is durable when this returns OK.
[[nodiscard]] absl::Status rename_and_sync(const std::string& from, const std::string& to, const std::string& parent);

}  // namespace skua::kv::files

#endif  // SKUA_KVSTORE_STORAGE_SHARD_FILES_H_
