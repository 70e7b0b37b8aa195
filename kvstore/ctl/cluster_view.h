// A cluster for people: nodes by the names that people use, and what each shard lacks.
//
// The status says who is alive, the shard map who holds what; both were asked for one after the other, so what
// is put together here is as good as a glance. Pure.
#ifndef SKUA_KVSTORE_CTL_CLUSTER_VIEW_H_
#define SKUA_KVSTORE_CTL_CLUSTER_VIEW_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "control/client/admin_client.h"

namespace skua::kv::ctl {

inline constexpr size_t kNodePrefixMin = 4;

/// The node that `name` means: its uuid, the beginning of a uuid that no other one has (kNodePrefixMin characters at
/// least: fewer may mean another node tomorrow), or its gRPC address ("host:port"). NOT_FOUND, INVALID_ARGUMENT (several, too
/// short), naming those that there are.
absl::StatusOr<control::ClusterStatus::Node> find_node(const control::ClusterStatus& status, std::string_view name);

/// For rows of text: enough of the uuid to tell it from others, as find_node takes it.
std::string short_uuid(const control::ClusterStatus& status, const std::string& uuid);

/// What people may want to do, and need not: a line for each hint, with an empty one before it.
std::string hints_text(const control::ClusterStatus& status);

struct ReplicaView {
  enum class Role : uint8_t { kPrimary, kBackup, kLearner, kJoining };
  Role role = Role::kBackup;
  std::string uuid = {};
  std::string grpc_address = {};
  uint32_t worker = 0;
  /// Of a joining learner: the number of the attempt. Otherwise 0.
  uint64_t join = 0;
  control::Liveness liveness = control::Liveness::kUnknown;
  bool draining = false;
  /// The node came back without what this replica had.
  bool lost_storage = false;
  /// The node cannot open what this replica has; why, if it says so.
  bool unserved = false;
  std::string unserved_why = {};
  /// Of a learner that copies: how far it is. Empty: it does not say.
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
  /// Its primary is alive, has its data and can open them.
  bool available = false;
  /// And the view is as large as the table's min_insync wants it.
  bool writable = false;
  /// All members there, on live nodes that are to keep them, nobody on the way.
  bool settled = false;
  /// Why it is not settled; empty if it is.
  std::string lacks = {};
};

ShardView view_of(const control::ClusterStatus& status, const control::ShardMap& map, const control::MapTable& table,
                  uint32_t shard);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_CLUSTER_VIEW_H_
