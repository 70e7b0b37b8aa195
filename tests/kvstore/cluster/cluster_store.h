// The metadata store: the control plane's state behind a compare-and-swap on its revision, and who leads. It can be
// away for long, and a change can have an outcome that nobody is told: never executed, executed, or executed much
// later.
//
//    commit(term, base revision, changes)    taken if nobody has changed the state since, and that term is not over
//    campaign(), renew()                     a lease; it only decides who acts
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_STORE_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "control/core/cluster_state.h"
#include "tests/kvstore/cluster/cluster_options.h"
#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

class ClusterStore {
 public:
  enum class Outcome : uint8_t { kDone, kConflict, kDeposed, kUnknown };

  ClusterStore(SimKernel& kernel, const ClusterSimOptions& options) : kernel_(kernel), options_(options) {}

  void start(control::ClusterState state) { state_ = std::move(state); }
  [[nodiscard]] const control::ClusterState& state() const { return state_; }

  /// nullopt: it did not answer.
  void load(std::function<void(const std::optional<control::ClusterState>&)> then);
  void commit(uint64_t term, uint64_t base_revision, control::Changes changes, std::function<void(Outcome)> then);
  /// The term in which `who` leads from now on; 0: somebody else does. Not called if there is no answer.
  void campaign(size_t who, std::function<void(uint64_t term)> then);
  void renew(uint64_t term, std::function<void(bool leads)> then);
  void resign(uint64_t term);
  /// Who leads; controls: nobody.
  [[nodiscard]] size_t leader() const { return kernel_.now() < lease_until_ ? leader_ : options_.controls; }

  void go_away_until(TimeNs until) { away_until_ = until; }
  void heal() { healed_ = true, away_until_ = 0; }

  /// Whether a change leaves each shard somebody who has its data: what all have lost tests nothing.
  std::function<bool(const control::Changes&)> is_viable;
  std::function<void(const control::Changes&, const control::ClusterState& before)> decided;

 private:
  Outcome execute(uint64_t term, uint64_t base_revision, const control::Changes& changes);
  [[nodiscard]] bool is_away() const { return kernel_.now() < away_until_; }
  [[nodiscard]] DurationNs latency() { return kernel_.between(kMillisecond, 10 * kMillisecond); }
  void later(DurationNs after, std::function<void()> then) { kernel_.queue.at(kernel_.now() + after, std::move(then)); }

  SimKernel& kernel_;
  const ClusterSimOptions& options_;
  control::ClusterState state_;
  size_t leader_ = 0;
  uint64_t term_ = 0;
  TimeNs lease_until_ = 0;
  TimeNs away_until_ = 0;
  bool healed_ = false;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_STORE_H_
