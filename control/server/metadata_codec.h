// Keys and records of the metadata store; docs/control-plane.md, "Metadata layout", is the same for
// people.
//
//   skua/cluster                                  ClusterRecord
//   skua/map                                      MapRecord       in every transaction that changes the map
//   skua/denied                                   DeniedRecord    absent while nobody is revoked
//   skua/tokens                                   JoinTokensRecord   absent while nobody may join by a token
//   skua/grants/<table id: 16 hex digits>         GrantsRecord    absent while the table is open to all clients
//   skua/quotas                                   QuotasRecord    absent while no client is limited
//   skua/nodes/<uuid>                             NodeRecord
//   skua/tables/<id: 16 hex digits>               TableRecord
//   skua/shards/<id: 16 hex>/<shard: 8 hex>       ShardRecord
#ifndef SKUA_CONTROL_SERVER_METADATA_CODEC_H_
#define SKUA_CONTROL_SERVER_METADATA_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/core/cluster_state.h"
#include "control/store/metadata_store.h"

namespace skua::control::metadata {

inline constexpr const char* kRoot = "skua/";
inline constexpr const char* kClusterKey = "skua/cluster";
inline constexpr const char* kMapKey = "skua/map";
inline constexpr const char* kDeniedKey = "skua/denied";
inline constexpr const char* kJoinTokensKey = "skua/tokens";
inline constexpr const char* kQuotasKey = "skua/quotas";

[[nodiscard]] std::string node_key(const std::string& uuid);
[[nodiscard]] std::string table_key(TableId id);
[[nodiscard]] std::string grants_key(TableId id);
[[nodiscard]] std::string shard_key(TableId id, uint32_t shard);
/// The prefix of all of a table's shards.
[[nodiscard]] std::string shards_prefix(TableId id);

/// What puts a new, empty cluster into the store.
[[nodiscard]] std::vector<Operation> encode_new_cluster(const ClusterState& state);

/// What carries out a change, the map record included.
[[nodiscard]] std::vector<Operation> encode_changes(const Changes& changes);

/// The state in a range read of kRoot. DATA_LOSS naming the key that is damaged, missing or should
/// not be there.
[[nodiscard]] absl::StatusOr<ClusterState> decode_state(const std::vector<KeyValue>& kvs);

}  // namespace skua::control::metadata

#endif  // SKUA_CONTROL_SERVER_METADATA_CODEC_H_
