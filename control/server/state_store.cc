#include "control/server/state_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/server/metadata_codec.h"

namespace skua::control {
namespace {

absl::Status refused(const ClusterIdentity& wanted, const std::string& holds, const std::string& asked,
                     const std::string& way_out) {
  return absl::FailedPreconditionError(absl::StrCat(wanted.place, " ", holds, ", but ", asked, " was asked for; ",
                                                    wanted.other_place, ", or ", way_out));
}

}  // namespace

absl::StatusOr<ClusterState> StateStore::load_or_create(const ClusterIdentity& wanted, const std::string& fresh_id) {
  if (wanted.must_exist) {
    const auto there = store_.get(metadata::kClusterKey);
    if (!there.ok()) return there.status();
    if (!there->kv) return refused(wanted, "holds no cluster", absl::StrCat("cluster id ", wanted.id), "restore it");
  }
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
    return refused(wanted, absl::StrCat("belongs to cluster ", state->cluster_id, " (", state->cluster_name, ")"),
                   absl::StrCat("cluster id ", wanted.id), "leave the cluster id away");
  }
  if (!wanted.name.empty() && wanted.name != state->cluster_name) {
    return refused(wanted, absl::StrCat("belongs to cluster ", state->cluster_name, " (", state->cluster_id, ")"),
                   absl::StrCat("cluster name ", wanted.name), "leave the cluster name away");
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
