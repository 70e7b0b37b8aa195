// A cluster in one thread: nodes with abstract logs, two control processes on one store, faults. For the
// property tests of views.
//
//   store      the state behind a compare-and-swap on the map's revision; checks every record that it takes
//   manager    a ClusterCore, driven as Controller drives it; commits may fail, or have an unknown outcome and
//              land later; what it believes may be stale
//   node       follows the map of one manager, which may be stale, adopts records in order; as a primary it
//              writes to all members and joining learners and counts a write as committed when all
//              have it, as control/core/view_rules.h asks
#ifndef SKUA_TESTS_CONTROL_CORE_VIEW_SIM_H_
#define SKUA_TESTS_CONTROL_CORE_VIEW_SIM_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/core/cluster_core.h"
#include "control/core/view_rules.h"
#include "rpc/base/rng.h"

namespace skua::control {

struct SimOptions {
  uint64_t nodes = 6;
  uint32_t replicas = 3;
  uint32_t shards = 6;
  uint64_t zones = 3;
  ViewOptions views;
};

class ViewSim {
 public:
  ViewSim(uint64_t seed, const SimOptions& options);

  /// A tenth of a second: heartbeats, reports, writes, ticks.
  void round();
  void run(DurationNs how_long);
  /// One random fault or operator's wish.
  void disturb();
  /// Ends all faults; every node runs.
  void heal();
  void crash(uint64_t node);
  void restart(uint64_t node, bool loses_writes);
  /// Of some nodes or of all. Each comes back without the newest writes, perhaps, and knows that much.
  void lose_power();
  /// The control processes start again, and know only what is stored.
  void restart_managers();
  void cut(uint64_t a, uint64_t b, bool is_cut);
  void cut_from_control(uint64_t node, bool is_cut);
  /// To a manager, as Controller does it.
  Decision step(size_t manager, const Event& event);
  /// ForceRecover for shards of which no node can know that it has everything.
  void recover_hopeless_shards();

  [[nodiscard]] const ClusterState& stored() const { return store_; }
  [[nodiscard]] size_t unsettled() const;
  [[nodiscard]] size_t committed_writes() const;
  /// The first thing that must not happen and did; empty if nothing.
  [[nodiscard]] const std::string& broken() const { return broken_; }
  [[nodiscard]] bool up(uint64_t node) const { return nodes_.at(node).up; }

 private:
  struct Copy {
    /// The newest record that this replica has adopted.
    ShardRecord record;
    /// The newest epoch that it has heard of from a primary or from its own record.
    uint64_t epoch = 0;
    /// Likewise.
    uint64_t fork = 0;
    std::vector<uint64_t> log;
    uint64_t open_epoch = 0;
    /// It may lack what it acknowledged: power was lost since a primary last brought it everything.
    bool doubts = false;
  };
  struct Node {
    NodeInfo info;
    bool up = true;
    bool lost_power = false;
    bool control_cut = false;
    bool yielding = false;
    std::map<ShardKey, Copy> copies;
  };
  struct Manager {
    ClusterCore core;
    bool must_reload = false;
  };
  struct InFlight {
    uint64_t base_revision;
    Changes changes;
  };
  enum class Outcome { kDone, kConflict, kUnknown };

  Outcome commit(Manager& manager, const Changes& changes);
  bool store_commit(uint64_t base_revision, const Changes& changes);
  void check(const ShardRecord& before, const ShardRecord& after);
  void check_former(const ShardRecord& record);
  void check_logs();
  void fail(const ShardRecord& record, const std::string& what);
  void act(uint64_t n);
  void lead(uint64_t n, Copy& copy, const ShardKey& key, ReplicaReport& report);
  void follow(uint64_t n, const Copy& copy, const ShardKey& key, ReplicaReport& report) const;
  bool push(uint64_t from, const Copy& copy, const ShardKey& key, const Replica& to);
  [[nodiscard]] bool connected(uint64_t a, uint64_t b) const;
  [[nodiscard]] uint64_t number_of(const std::string& uuid) const;
  void send(uint64_t n, size_t manager, const Event& event);
  void send_heartbeat(uint64_t n, size_t manager, bool stopping);
  [[nodiscard]] bool viewed(const Replica& replica) const;
  /// Has the replica, as far as is known to itself, everything?
  [[nodiscard]] bool whole(const Replica& replica, const ShardKey& key) const;

  Rng rng_;
  const SimOptions options_;
  TimeNs now_ = 1000 * kSecond;
  uint64_t round_ = 0;
  ClusterState store_;
  std::vector<Manager> managers_;
  std::vector<InFlight> in_flight_;
  double commit_trouble_ = 0;
  bool disturbed_ = false;
  std::map<uint64_t, Node> nodes_;
  std::set<std::pair<uint64_t, uint64_t>> cuts_;
  uint64_t next_write_ = 1;
  size_t committed_count_ = 0;
  std::map<ShardKey, std::vector<uint64_t>> committed_;
  std::map<std::pair<ShardKey, uint64_t>, ShardRecord> views_;
  std::string broken_;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_CORE_VIEW_SIM_H_
