// Shorthand for tests of the pure core: a cluster whose every accepted decision is committed at
// once.
#ifndef SKUA_TESTS_CONTROL_CORE_CORE_FIXTURE_H_
#define SKUA_TESTS_CONTROL_CORE_CORE_FIXTURE_H_

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "control/core/cluster_core.h"

namespace skua::control {

inline constexpr const char* kClusterId = "c1c1c1c1-0000-4000-8000-000000000001";

/// A different UUID for each number, in its first eight bytes, too.
inline std::string test_uuid(uint64_t n) {
  return absl::StrFormat("%08x-0000-4000-8000-%012x", n & 0xffff'ffff, n);
}

/// Node number `n` in its `incarnation`th process, at host-<n>:7500.
inline NodeInfo test_node(uint64_t n, uint64_t incarnation = 1, uint32_t workers = 2) {
  return {test_uuid(n),
          incarnation,
          test_uuid(n * 1000 + incarnation),
          absl::StrFormat("host-%d:7500", n),
          absl::StrFormat("host-%d", n),
          workers,
          kProtocolVersions};
}

inline ClusterState empty_cluster() {
  ClusterState state;
  state.cluster_id = kClusterId;
  state.cluster_name = "test";
  state.map_revision = 1;
  return state;
}

inline std::string message_of(const absl::Status& status) {
  return std::string(status.message());
}

/// Decides and commits.
class TestCluster {
 public:
  explicit TestCluster(ClusterState state = empty_cluster(), ViewOptions views = {}, bool claims_need_proof = false)
      : core({.suspect_after_ns = 3 * kSecond, .views = views, .claims_need_proof = claims_need_proof},
             std::move(state), now) {}

  Decision step(const Event& event) {
    for (;;) {
      Decision decision = core.step(event, now);
      if (!decision.status.ok()) return decision;
      for (LivenessChange& change : core.committed(decision.changes, now)) {
        decision.liveness_changes.push_back(std::move(change));
      }
      if (!decision.unfinished) return decision;
    }
  }
  absl::Status register_node(const NodeInfo& node) { return step(RegisterNode{kClusterId, node, 0}).status; }
  absl::Status heartbeat(const NodeInfo& node, uint64_t applied_revision = 0) {
    return step(NodeHeartbeat{node.uuid, node.incarnation, node.instance, applied_revision, false}).status;
  }
  absl::Status create_table(const std::string& name, uint32_t shards = 0) {
    return step(CreateTable{name, shards, false}).status;
  }
  /// Lets time pass and the core notice.
  void advance(DurationNs by) {
    now += by;
    step(Tick{});
  }
  Liveness liveness(uint64_t n) const { return core.node_status(test_uuid(n))->liveness; }
  uint64_t revision() const { return core.state().map_revision; }

  TimeNs now = 100 * kSecond;
  ClusterCore core;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_CORE_CORE_FIXTURE_H_
