// The newest shard map, kept up to date by a watch, and kept when the control plane is gone.
//
//     connect ──> watch(after the revision we have) ──> map, map, map, ...
//        ^                                               │      each: validate, swap the snapshot, tell
//        │                                               v
//        └──── back off (50 ms to 2 s, jittered) <──── stream ended or refused
//
// Readers take a snapshot (a shared pointer to an immutable map) and keep it as long as they like.
// On a hot path, keep a snapshot and compare revision(), one atomic load, before taking another.
// Who is revoked is told the credentials before anybody hears of the map.
// Nothing here is ever emptied: with the control plane down, the last map goes on serving.
#ifndef SKUA_CONTROL_CLIENT_SHARD_MAP_CACHE_H_
#define SKUA_CONTROL_CLIENT_SHARD_MAP_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "control/client/control_client_limits.h"
#include "control/core/shard_map.h"
#include "control/security/credentials.h"
#include "rpc/base/clock.h"

namespace skua::control {

struct ShardMapCacheOptions {
  /// "host:port" of skua-control; of several, with commas between them.
  std::string control_address;
  /// What to show it; null: nothing, without TLS.
  CredentialsPtr credentials = nullptr;
  /// Take maps of this cluster only. Empty: of whichever cluster answers first, and from then on of
  /// that one.
  std::string cluster_id = "";
  /// A newer map has been stored. Runs on the cache's thread, in order of revision; must not call
  /// stop(). May be empty.
  std::function<void(std::shared_ptr<const ShardMap>)> on_change = nullptr;
  /// The control plane cannot be reached or refuses; once per change of the reason. Runs on the
  /// cache's thread. May be empty.
  std::function<void(const absl::Status&)> on_trouble = nullptr;
  /// See expect().
  DurationNs late_after_ns = kMapLateNs;
};

/// Thread: any, for all methods.
class ShardMapCache {
 public:
  explicit ShardMapCache(ShardMapCacheOptions options);
  /// stop().
  ~ShardMapCache();
  ShardMapCache(const ShardMapCache&) = delete;
  ShardMapCache& operator=(const ShardMapCache&) = delete;

  /// Starts following the map. Once.
  void start();

  /// Stops following and joins the thread; the last snapshot stays. Idempotent.
  void stop();

  /// The newest map; never null. Before the first map arrives: an empty one with revision 0. Cost:
  /// a short lock.
  [[nodiscard]] std::shared_ptr<const ShardMap> snapshot() const;

  /// snapshot()->revision, as one atomic load.
  [[nodiscard]] uint64_t revision() const;

  /// Waits for a map with at least this revision. DEADLINE_EXCEEDED with the reason why there is
  /// none; at once FAILED_PRECONDITION if the control plane refuses us (another cluster, no common
  /// protocol version), PERMISSION_DENIED if our identity is revoked or has the wrong role; CANCELLED after stop().
  absl::Status wait_for_revision(uint64_t revision, DurationNs timeout_ns) const;

  /// Waits for a map that satisfies `wanted`. Errors as above.
  absl::Status wait_until(const std::function<bool(const ShardMap&)>& wanted, DurationNs timeout_ns) const;

  /// Somebody has seen a newer map: do not finish the current back-off, connect now.
  void hurry();

  /// The control plane says that it has this revision. If the map does not follow (late_after_ns), the watch is opened
  /// anew: gRPC notices a dead connection by timers, which stand still for as long as a wall clock was set back.
  void expect(uint64_t revision);

  /// OK while the watch is open; else why it is not. UNKNOWN as long as there is hope: no process has answered yet, not
  /// all have been asked, or none of them leads.
  [[nodiscard]] absl::Status connection() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_SHARD_MAP_CACHE_H_
