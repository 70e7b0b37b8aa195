#include "control/server/state_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/server/metadata_codec.h"

namespace skua::control {

absl::StatusOr<ClusterState> StateStore::load_or_create(const ClusterIdentity& wanted, const std::string& fresh_id) {
  ClusterState empty;
  empty.cluster_id = wanted.id.empty() ? fresh_id : wanted.id;
  empty.cluster_name = wanted.name.empty() ? kDefaultClusterName : wanted.name;
  empty.map_revision = 1;
  // Creates both records, or leaves an existing cluster alone.
  const auto created =
      store_.transact({{Compare::absent(metadata::kClusterKey)}, metadata::encode_new_cluster(empty), {}});
  if (!created.ok()) return created.status();
  auto state = load();
  if (!state.ok()) return state;
  if (!wanted.id.empty() && wanted.id != state->cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the data belongs to cluster ", state->cluster_id, " (", state->cluster_name, "), but cluster id ", wanted.id,
        " was asked for. Use the data directory of that cluster, or leave the "
        "cluster id away"));
  }
  if (!wanted.name.empty() && wanted.name != state->cluster_name) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data belongs to cluster ", state->cluster_name, " (", state->cluster_id,
                     "), but cluster name ", wanted.name,
                     " was asked for. Use the data directory of that cluster, or leave "
                     "the cluster name away"));
  }
  return state;
}

absl::StatusOr<ClusterState> StateStore::load() {
  const auto range = store_.range(metadata::kRoot);
  if (!range.ok()) return range.status();
  auto state = metadata::decode_state(range->kvs);
  if (!state.ok()) return state;
  for (const KeyValue& kv : range->kvs) {
    if (kv.key == metadata::kMapKey) map_mod_revision_ = kv.mod_revision;
  }
  return state;
}

absl::StatusOr<bool> StateStore::commit(const Changes& changes) {
  const auto result = store_.transact(
      {{Compare::unchanged(metadata::kMapKey, map_mod_revision_)}, metadata::encode_changes(changes), {}});
  if (!result.ok()) return result.status();
  if (result->succeeded) map_mod_revision_ = result->revision;
  return result->succeeded;
}

}  // namespace skua::control
