// Where views are decided: one record per shard, changed by compare-and-swap only. It can be away for long, and a
// change can have an outcome that nobody is told: never executed, executed, or executed much later.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_METADATA_STORE_MODEL_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_METADATA_STORE_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "kvstore/replication/view.h"
#include "tests/kvstore/replication/replication_options.h"
#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

class MetadataStoreModel {
 public:
  enum class Outcome : uint8_t { kDone, kConflict, kUnknown };

  MetadataStoreModel(SimKernel& kernel, const ReplicationSimOptions& options) : kernel_(kernel), options_(options) {}

  void start(std::vector<View> views) { views_ = std::move(views); }
  [[nodiscard]] const View& view(size_t shard) const { return views_[shard]; }

  /// `then` is not called while the store is away: callers have timeouts.
  void read(size_t shard, std::function<void(const View&)> then);
  void compare_and_swap(size_t shard, const View& expected, const View& next, std::function<void(Outcome)> then);

  void go_away_until(TimeNs until) { away_until_ = until; }
  void heal() { healed_ = true, away_until_ = 0; }

  /// Whether a change leaves anybody who has the data (a store that is lost with all of them is no test).
  std::function<bool(size_t shard, const View&)> is_viable;
  std::function<void(size_t shard, const View&)> decided;

 private:
  Outcome execute(size_t shard, const View& expected, const View& next);
  [[nodiscard]] DurationNs latency() { return kernel_.between(kMillisecond, 10 * kMillisecond); }

  SimKernel& kernel_;
  const ReplicationSimOptions& options_;
  std::vector<View> views_;
  TimeNs away_until_ = 0;
  bool healed_ = false;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_METADATA_STORE_MODEL_H_
