// Looks at the node's file system and at its workers' logs, five times a second, and tells workers and people.
//
//    free space below the reserve  ---> workers refuse what makes data grow; deletes, and what is under way, go on
//    free again (an eighth more)   ---> workers take writes again
//    a log failed                  ---> an error in the node's log, once per worker
//    either                        ---> the node's trouble, which the control plane shows (skuactl status)
//
// The reserve is what logs, flushes and compactions need to go on while nothing grows. Without it a database would meet the
// end of the disk itself and could only be opened again by a restart.
#ifndef SKUA_KVSTORE_SERVER_STORAGE_WATCH_H_
#define SKUA_KVSTORE_SERVER_STORAGE_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/server/node_log.h"
#include "kvstore/server/worker.h"

namespace skua::kv {

/// Decides whether data may grow. Pure.
class GrowthGate {
 public:
  GrowthGate(std::string directory, uint64_t reserve_bytes)
      : directory_(std::move(directory)), reserve_bytes_(reserve_bytes) {}

  /// What to tell the workers, if it changed: OK, or RESOURCE_EXHAUSTED saying what is full and the way out.
  [[nodiscard]] std::optional<absl::Status> look(uint64_t free_bytes);

 private:
  const std::string directory_;
  const uint64_t reserve_bytes_;
  bool closed_ = false;
};

/// Bytes that the file system of `path` has free for this process.
[[nodiscard]] absl::StatusOr<uint64_t> free_bytes_of(const std::string& path);
/// Bytes of that file system, used or not.
[[nodiscard]] absl::StatusOr<uint64_t> disk_bytes_of(const std::string& path);

class StorageWatch {
 public:
  struct Options {
    std::string data_dir;
    uint64_t reserve_bytes = 0;
    NodeLog log;
    /// What keeps the node from taking writes, at each look; empty: nothing. On the watch's thread.
    std::function<void(const std::string& trouble)> on_trouble{};
  };

  /// Looks once (without telling of trouble), then starts the thread. The workers outlive it.
  StorageWatch(Options options, std::vector<Worker*> workers);
  ~StorageWatch();
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

 private:
  void run();
  void look();
  [[nodiscard]] std::string trouble() const;

  const Options options_;
  const std::vector<Worker*> workers_;
  GrowthGate gate_;
  absl::Status growth_;
  std::vector<std::string> log_failures_;  // by worker; told if not empty
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVER_STORAGE_WATCH_H_
