// RouteTable: the shard map in the form that the data path needs: table name -> shards -> (epoch, target). A target is
// one worker of one node. Targets are numbered, so that the client can keep a session per target.
//
//   ShardMap (control plane)                       RouteTable
//   nodes  [ uuid, address, ... ]                  targets  [ (uuid, worker), ... ]   numbers stay
//   tables [ id, name, shards [ epoch, owner ] ]   tables   [ id, name, shards ]      over maps
//
// Pure. Thread: one at a time.
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

/// One worker of one node. Targets are never removed, so a TargetId stays valid. `present` says whether the newest map
/// has the node; one that is revoked counts as absent.
struct Target {
  std::string node_uuid;
  uint32_t worker = 0;
  bool present = false;
  // From the newest map that had the node:
  uint64_t incarnation = 0;
  std::string grpc_address;

  /// "node 3f2a.. worker 1 (10.0.0.7:7410)".
  [[nodiscard]] std::string describe() const;
};

struct ShardRoute {
  uint64_t epoch = 0;
  /// kNoTarget: the shard has no owner, or a revoked one.
  TargetId target = kNoTarget;
  /// The shard's part of TableRoutes::backups. Empty unless the table has read_anywhere.
  uint32_t first_backup = 0;
  uint32_t backup_count = 0;
};

struct TableRoutes {
  uint32_t id = 0;
  std::string name;
  std::vector<ShardRoute> shards;
  bool hash_tags = false;
  std::vector<TargetId> backups = {};  ///< the backups that answer reads, of all shards, one shard after the other

  [[nodiscard]] KeyPlacement placement() const { return {static_cast<uint32_t>(shards.size()), hash_tags}; }
  [[nodiscard]] std::span<const TargetId> backups_of(const ShardRoute& shard) const {
    return std::span(backups).subspan(shard.first_backup, shard.backup_count);
  }
};

class RouteTable {
 public:
  /// Takes over a newer map. Returns the targets whose node restarted, has a new address, is gone or is revoked:
  /// sessions with them are dead. A map that is not newer changes nothing. All TableRoutes pointers become invalid.
  std::vector<TargetId> update(const control::ShardMap& map);

  /// 0: no map yet.
  [[nodiscard]] uint64_t revision() const { return revision_; }
  [[nodiscard]] const std::string& cluster_id() const { return cluster_id_; }

  /// The table of this name, or null. Valid until a newer map is taken over. Costs one comparison if the same table was
  /// asked for last.
  [[nodiscard]] const TableRoutes* find_table(std::string_view name);

  /// The names of all tables, sorted. For messages.
  [[nodiscard]] std::vector<std::string> table_names() const;

  [[nodiscard]] const Target& target(TargetId id) const { return targets_[id]; }
  /// Empty: kNoTarget.
  [[nodiscard]] std::string describe(TargetId id) const { return id == kNoTarget ? "" : targets_[id].describe(); }

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
