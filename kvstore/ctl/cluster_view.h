// A view of the cluster for users: finds nodes by the names that users give, and says what each shard lacks.
//
// The status says which nodes are alive. The shard map says which node holds which shard. The two are asked for one
// after the other, so a view may combine states of slightly different moments. Pure.
#ifndef SKUA_KVSTORE_CTL_CLUSTER_VIEW_H_
#define SKUA_KVSTORE_CTL_CLUSTER_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "control/client/admin_client.h"

namespace skua::kv::ctl {

/// Fewest characters of a uuid that name a node.
inline constexpr size_t kNodePrefixMin = 4;

/// The node that `name` means: a node's uuid, a beginning of its uuid that no other node's uuid has, or its gRPC
/// address ("host:port"). A beginning has at least kNodePrefixMin characters: a shorter one may mean another node when
/// nodes join. NOT_FOUND; INVALID_ARGUMENT (several nodes match, or `name` is too short). Both list the nodes.
absl::StatusOr<control::ClusterStatus::Node> find_node(const control::ClusterStatus& status, std::string_view name);

/// A beginning of the uuid that no other node's uuid has. find_node() takes it.
std::string short_uuid(const control::ClusterStatus& status, const std::string& uuid);

/// The status's hints: things that users may want to do but need not. A line for each hint, after an empty line.
std::string hints_text(const control::ClusterStatus& status);

struct ReplicaView {
  enum class Role : uint8_t { kPrimary, kBackup, kLearner, kJoining };
  Role role = Role::kBackup;
  std::string uuid = {};
  std::string grpc_address = {};
  uint32_t worker = 0;
  /// A joining learner: the number of its attempt to join. Otherwise 0.
  uint64_t join = 0;
  control::Liveness liveness = control::Liveness::kUnknown;
  bool draining = false;
  /// The node came back without the data of this replica.
  bool lost_storage = false;
  /// The node cannot open the data of this replica. unserved_why: the reason, if the node gives one.
  bool unserved = false;
  std::string unserved_why = {};
  /// A learner that copies: its progress. Empty: the node reports none.
  std::string copy = {};
};

const char* role_name(ReplicaView::Role role);

struct ShardView {
  uint32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t fork = 0;
  /// The primary first, learners last.
  std::vector<ReplicaView> replicas = {};
  uint32_t member_count = 0;
  /// The primary is alive, has its data and can open them.
  bool available = false;
  /// Available, and the view has at least min_insync members.
  bool writable = false;
  /// Available, with all members, each on a live node that has the data and does not drain; no learner is copying or
  /// joining.
  bool settled = false;
  /// Why it is not settled; empty if it is.
  std::string lacks = {};
};

ShardView view_of(const control::ClusterStatus& status, const control::ShardMap& map, const control::MapTable& table,
                  uint32_t shard);

/// The uuids of the nodes that hold a member of the table and do not serve it yet: they are not alive, cannot open its
/// data, or have not acted upon the map of `revision`. Sorted. nullopt: the table was dropped. `status` must have been
/// asked for after `map`, so that a drop between the two shows.
std::optional<std::vector<std::string>> nodes_not_serving(const control::ClusterStatus& status,
                                                          const control::ShardMap& map, control::TableId table,
                                                          uint64_t revision);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_CLUSTER_VIEW_H_
