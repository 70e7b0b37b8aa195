// One log on a simulated disk under one seed, beside a dumb model of it: a list of groups.
//
// The promises that are checked:
//  - after any restart the log holds exactly the groups up to some number: at least the last one reported as synced, at
//    most the last one tried; after an orderly close or an end of the process alone, exactly the last one
//  - each shard stands where that prefix says, and a replay yields exactly its records above what is applied
//    elsewhere, but for those that were kept elsewhere before they were applied: none half-present, none twice, none out of order, none that was replaced or refused
//  - a bit flipped at rest is reported (for the shard, or as a torn tail) or costs nothing
//  - no space is RESOURCE_EXHAUSTED, urgent records still pass while a spare is left, and when all is durable elsewhere
//    a single segment stays and writes pass again
#ifndef SKUA_TESTS_KVSTORE_LOG_LOG_WORLD_H_
#define SKUA_TESTS_KVSTORE_LOG_LOG_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/log/log.h"
#include "kvstore/log/log_recovery.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/log/sim_device.h"
#include "tests/simulation/seed_runner.h"

namespace skua::kv::sim {

class LogWorld final : public simulation::World {
 public:
  explicit LogWorld(uint64_t seed);

  std::optional<std::string> run() override;
  [[nodiscard]] uint64_t trace() const override { return trace_; }
  [[nodiscard]] simulation::Summary summary() const override;

 private:
  struct Tally {
    uint64_t groups = 0, restarts = 0, flips = 0, flips_reported = 0, refusals = 0, failures = 0, recycled = 0,
             kept = 0;
  };
  struct Op {
    RecordKind kind = RecordKind::kData;
    LogShard shard = 0;
    uint64_t index = 0;
    uint64_t epoch = 0;
    int64_t nonce = 0;  // kData: names the payload; kShardStart: names the shard's life
  };
  using Group = std::vector<Op>;
  struct ShardModel {
    int64_t life = 0;
    uint64_t last_index = 0;
    uint64_t last_epoch = 0;
    std::map<uint64_t, Op> records;
  };
  using Model = std::map<LogShard, ShardModel>;

  void step();
  void write_group(bool urgent);
  std::optional<Op> random_op(Model& model);
  bool submit(const Op& op, bool urgent, Durability durability);
  void check_commit(const absl::StatusOr<Durability>& committed, bool sync, bool urgent);
  void no_space();
  void advance_durable(bool all);
  void keep_some(LogShard shard, const ShardModel& known);
  void tell_kept();
  void begin_sudden_end();
  void restart();
  bool scan_and_check();
  void flip_and_check();
  std::string check_recovery(LogRecovery& recovery, const Model& model, bool flipped);
  void open_log(const LogRecovery& recovery);

  [[nodiscard]] std::vector<std::byte> payload_of(int64_t nonce) const;
  static void apply(Model& model, const Op& op);
  [[nodiscard]] Model model_at(uint64_t group) const;
  [[nodiscard]] uint64_t& durable(LogShard shard, int64_t life) { return durable_[{shard, life}]; }
  [[nodiscard]] bool is_kept(LogShard shard, const ShardModel& known, uint64_t index) const;
  [[nodiscard]] std::vector<AppliedIndex> applied(const Model& model, const LogRecovery& recovery);
  void broken(const std::string& what);
  void note(uint64_t value) { trace_ = mix64(trace_ ^ value); }

  Rng rng_;
  SimDevice device_;
  LogOptions options_;
  SimDeviceFaults faults_;
  size_t shard_count_;
  double sync_share_;
  double keep_share_;     // of shards, each time that some go on elsewhere
  double replace_share_;  // of records
  size_t payload_max_;
  bool fixed_layout_;  // two records a group, the second one in a sector of its own: stale ones would fit
  std::unique_ptr<Log> log_;

  std::vector<Group> groups_;  // number 1 first
  uint64_t synced_ = 0;        // last one reported as durable
  uint64_t exact_ = 0;         // if not 0, what the next restart must find
  bool closed_ = false;
  Model model_;  // after the last group
  std::map<std::pair<LogShard, int64_t>, uint64_t> durable_;
  /// Nonces of records that are kept elsewhere and may yet be replaced.
  std::map<std::pair<LogShard, int64_t>, std::set<int64_t>> kept_;
  struct Kept {
    LogShard shard = 0;
    uint64_t index = 0;
    uint64_t epoch = 0;
  };
  std::vector<Kept> untold_;             // the log hears of it later
  std::map<LogShard, uint64_t> epochs_;  // highest ever used
  int64_t next_nonce_ = 1;

  std::optional<std::string> broken_;
  uint64_t trace_ = 0;
  Tally tally_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_LOG_LOG_WORLD_H_
