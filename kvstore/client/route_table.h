// The shard map as the data path wants it: table name -> shards -> (epoch, target), where a target
// is one worker of one node, numbered so that the client can keep a session per target.
//
//   ShardMap (control plane)                       RouteTable
//   nodes  [ uuid, address, ... ]                  targets  [ (uuid, worker), ... ]   numbers stay
//   tables [ id, name, shards [ epoch, owner ] ]   tables   [ id, name, shards ]      over maps
//
// Pure; thread: one at a time.
#ifndef SKUA_KVSTORE_CLIENT_ROUTE_TABLE_H_
#define SKUA_KVSTORE_CLIENT_ROUTE_TABLE_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/core/shard_map.h"
#include "kvstore/codec/key_hash.h"

namespace skua::kv {

using TargetId = uint32_t;
inline constexpr TargetId kNoTarget = UINT32_MAX;

/// One worker of one node. Never removed, so that its number stays good; `present` tells whether
/// the newest map knows its node.
struct Target {
  std::string node_uuid;
  uint32_t worker = 0;
  bool present = false;
  // Of the newest map that knew the node:
  uint64_t incarnation = 0;
  std::string grpc_address;

  /// "node 3f2a.. worker 1 (10.0.0.7:7410)".
  [[nodiscard]] std::string describe() const;
};

struct ShardRoute {
  uint64_t epoch = 0;
  /// kNoTarget: the shard has no owner.
  TargetId target = kNoTarget;
  /// Of TableRoutes::backups. None unless the table is read anywhere.
  uint32_t first_backup = 0;
  uint32_t backup_count = 0;
};

struct TableRoutes {
  uint32_t id = 0;
  std::string name;
  std::vector<ShardRoute> shards;
  std::vector<TargetId> backups = {};  ///< those that answer reads, of all shards

  [[nodiscard]] std::span<const TargetId> backups_of(const ShardRoute& shard) const {
    return std::span(backups).subspan(shard.first_backup, shard.backup_count);
  }
};

class RouteTable {
 public:
  /// Takes a newer map; returns the targets whose node restarted, moved or is gone: sessions with
  /// them are dead. A map that is not newer changes nothing.
  std::vector<TargetId> update(const control::ShardMap& map);

  /// 0: no map yet.
  [[nodiscard]] uint64_t revision() const { return revision_; }
  [[nodiscard]] const std::string& cluster_id() const { return cluster_id_; }

  /// The table of this name, or null. Valid until update(). Cost: one comparison when it is the
  /// table asked for last.
  [[nodiscard]] const TableRoutes* find_table(std::string_view name);

  /// Of all tables, sorted. For messages.
  [[nodiscard]] std::vector<std::string> table_names() const;

  [[nodiscard]] const Target& target(TargetId id) const { return targets_[id]; }
  [[nodiscard]] size_t target_count() const { return targets_.size(); }

 private:
  TargetId target_of(const control::MapNode& node, uint32_t worker);

  uint64_t revision_ = 0;
  std::string cluster_id_;
  std::vector<Target> targets_;
  std::map<std::pair<std::string, uint32_t>, TargetId> by_worker_;
  std::vector<TableRoutes> tables_;  // sorted by name
  const TableRoutes* last_ = nullptr;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_ROUTE_TABLE_H_
