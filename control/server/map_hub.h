// Hands each new shard map to everybody who watches.
//
// A map is turned into a message once and shared by all watchers. Each watcher has at most one
// message on its way and one waiting; a newer map replaces the waiting one. So a slow or dead
// reader costs two pointers, and the last map always arrives.
#ifndef SKUA_CONTROL_SERVER_MAP_HUB_H_
#define SKUA_CONTROL_SERVER_MAP_HUB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/shard_map.h"
#include "control/proto/control.pb.h"
#include "control/server/controller_limits.h"

namespace skua::control {

using MapMessage = std::shared_ptr<const v1::WatchShardMapReply>;

/// One open watch. Thread: any, several at once; a call that has begun may end after remove(). Maps
/// may come out of order: a watcher ignores one that is older than what it has.
class MapWatcher {
 public:
  virtual ~MapWatcher() = default;
  /// A map to pass on. Must not block.
  virtual void offer(const MapMessage& map) = 0;
  /// No more maps will come, and why.
  virtual void close(const absl::Status& why) = 0;
};

enum class WatcherKind {
  kAnonymous,  ///< it showed no certificate
  kClient,     ///< or any other that is no node
  kNode,
};

/// Thread: any.
class MapHub {
 public:
  /// `per_source_max`: watchers of one host. `kept_for_nodes`: of kWatchersMax, so many places are for nodes only.
  explicit MapHub(size_t per_source_max = kWatchersPerSourceMax, size_t kept_for_nodes = 0)
      : per_source_max_(per_source_max), others_max_(kWatchersMax - kept_for_nodes) {}

  /// Makes `map` current and offers it to all watchers. Ends suspend().
  void publish(const ShardMap& map);

  /// Another process has the maps from now on: closes all watchers with `why`, which new ones are told too.
  void suspend(const absl::Status& why);

  /// The current map; null before the first publish() and after suspend().
  [[nodiscard]] MapMessage current() const;
  /// Why there is no current map.
  [[nodiscard]] absl::Status refusal() const;

  /// Adds a watcher, which is offered the current map at once, or an empty message if that is
  /// `after_revision`. Returns the key for remove(). RESOURCE_EXHAUSTED at kWatchersMax, or for others than nodes where
  /// the places begin that are kept for nodes; UNAVAILABLE after close(),
  /// suspend()'s status after that. `source` is the host that watches, which may have so many as the constructor says;
  /// empty: not counted.
  absl::StatusOr<uint64_t> add(const std::shared_ptr<MapWatcher>& watcher, uint64_t after_revision,
                               const std::string& source = "", WatcherKind kind = WatcherKind::kClient);
  void remove(uint64_t key);

  /// Closes all watchers and refuses new ones.
  void close();

  [[nodiscard]] size_t watcher_count() const;
  [[nodiscard]] size_t anonymous_watcher_count() const;

 private:
  struct Watching {
    std::shared_ptr<MapWatcher> watcher;
    std::string source;
    WatcherKind kind = WatcherKind::kClient;
  };

  [[nodiscard]] absl::Status admit_locked(const std::string& source, WatcherKind kind) const;
  [[nodiscard]] std::vector<std::shared_ptr<MapWatcher>> watchers_locked() const;

  const size_t per_source_max_;
  const size_t others_max_;
  mutable std::mutex mutex_;
  MapMessage current_;
  absl::Status suspended_;
  std::map<uint64_t, Watching> watchers_;
  size_t others_ = 0;  // of watchers_: those that are no nodes
  std::map<std::string, size_t> by_source_;
  uint64_t next_key_ = 1;
  bool closed_ = false;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_MAP_HUB_H_
