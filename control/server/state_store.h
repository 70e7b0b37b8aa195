// The cluster's state in the metadata store: read as a whole, changed by compare-and-swap on
// `skua/map`.
//
// Every change of the map compares and puts that one key. Two control processes on one store can
// therefore never both succeed from the same state: the slower one's transaction fails, it reads
// again and decides again.
#ifndef SKUA_CONTROL_SERVER_STATE_STORE_H_
#define SKUA_CONTROL_SERVER_STATE_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/cluster_state.h"
#include "control/store/metadata_store.h"

namespace skua::control {

/// Which cluster this control plane is meant to be.
struct ClusterIdentity {
  /// If not empty, what is stored must have this id; also the id of a cluster that is created.
  std::string id;
  /// Likewise for the name.
  std::string name;
  /// It exists: an empty store is not its store.
  bool must_exist = false;
  /// Where the store is, and how to choose another, for messages.
  std::string place = "the data directory";
  std::string other_place = "use the data directory of that cluster";
};

/// Thread: one. The store must outlive it.
class StateStore {
 public:
  explicit StateStore(MetadataStore& store) : store_(store) {}

  /// Reads the cluster, or creates it under `wanted`, with `fresh_id` if that has no id and
  /// kDefaultClusterName if it has no name. FAILED_PRECONDITION if the store holds another cluster,
  /// or none though it must; DATA_LOSS; the store's errors.
  absl::StatusOr<ClusterState> load_or_create(const ClusterIdentity& wanted, const std::string& fresh_id);

  /// Reads everything. Errors as above.
  absl::StatusOr<ClusterState> load();

  /// Carries out a change that was decided on the state last loaded or committed. False if another
  /// process has changed the state since: load() and decide again. After an error the outcome is
  /// unknown: load() before anything else.
  absl::StatusOr<bool> commit(const Changes& changes);

 private:
  MetadataStore& store_;
  /// mod_revision of skua/map in the state that decisions are made on.
  uint64_t map_mod_revision_ = 0;
};

inline constexpr const char* kDefaultClusterName = "skua";

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_STATE_STORE_H_
