// What copies of shards need in a simulated node: files, the databases that are built from them, and tasks for disks.
//
//    FETCH_CHUNK <--- SnapshotSource <--- export: the database's rows as one file, and a real manifest
//    SnapshotCopies ---> SimFileTree: files as they come --> build: the manifest is checked, the rows become a database
//                                                            rename, remove: databases move with their directories
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_SIM_COPYING_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_SIM_COPYING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/snapshot/shard_copy.h"
#include "kvstore/snapshot/snapshot_manifest.h"
#include "kvstore/storage/file_tree.h"
#include "kvstore/types/task_thread.h"
#include "tests/kvstore/shard/crash_machine.h"

namespace skua::kv::sim {

/// A machine's files and the databases beside them, by path. They outlive the machine's processes. An operation fails
/// if the process has ended.
class SimFileTree final : public FileTree {
 public:
  explicit SimFileTree(Machine& machine) : machine_(machine) {}

  absl::Status make_directories(const std::string& path) override;
  absl::Status remove(const std::string& path) override;
  absl::Status rename(const std::string& from, const std::string& to, const std::string& parent) override;
  absl::StatusOr<uint64_t> size(const std::string& path) override;
  absl::Status read(const std::string& path, uint64_t offset, std::span<char> to) override;
  absl::Status write(const std::string& path, uint64_t offset, std::string_view bytes) override;

  Database& make_database(const std::string& path, ShardId id);
  /// Null: there is none.
  [[nodiscard]] Database* database(const std::string& path) const;
  /// The databases right in this directory, by shard.
  [[nodiscard]] std::map<ShardId, std::string> databases_in(const std::string& directory) const;

 private:
  Machine& machine_;
  std::map<std::string, std::string> files_;
  std::map<std::string, std::unique_ptr<Database>> databases_;
};

/// Writes a snapshot of the database to `path`. Returns its manifest.
[[nodiscard]] absl::StatusOr<SnapshotManifest> export_sim_shard(const Database& database, const ClusterId& cluster,
                                                                SimFileTree& tree, const std::string& path);
/// Makes the snapshot at `path` a database below `directory`, and opens it as a copy. DATA_LOSS: the files are not what
/// the manifest says.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ShardCopy>> build_sim_copy(ShardId id, const ClusterId& cluster,
                                                                        SimFileTree& tree, const std::string& path,
                                                                        const std::string& directory);

/// Runs tasks in order, one per event.
class SimDiskTasks final : public TaskRunner {
 public:
  /// `schedule` runs a function later, or never if the process ends before.
  using Schedule = std::function<void(absl::AnyInvocable<void()>)>;
  explicit SimDiskTasks(Schedule schedule) : schedule_(std::move(schedule)) {}

  [[nodiscard]] bool submit(absl::AnyInvocable<void()> task) override;

 private:
  void step();

  const Schedule schedule_;
  std::deque<absl::AnyInvocable<void()>> tasks_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_SIM_COPYING_H_
