// Lives of storage engines on a machine that ends in the middle of things, under one seed and on one thread: log
// writers, appliers and readers are stepped, and their reports reach the workers, in an order that the seed picks.
//
//    clients (here) -- writes, reads --> WorkerEngine 0, 1 --> Machine: logs, databases
//        |                                                        |
//        +-- a dumb twin per shard, in the order of the answers   +-- kill, power cut, EIO, ENOSPC, restart, repeat
//
// The promises that are checked:
//  - every answer is the twin's: conditions, versions (they rise by one and never repeat), values. A write that is
//    answered as not done was not done.
//  - no version is given out twice, also if its write was lost; a read that asks for a lost state is told so
//  - a read shows a state that was current while it was under way, never one that is not committed; what it points to
//    stays as it is until it is given back
//  - after an end, a shard's database is exactly its twin after some write: at least the last one acknowledged as
//    synced (after a kill: as written; after an orderly end: at all), at most the last one tried
//  - a write that its client repeats, after whatever ends, is answered as the first time if it is there, and executed
//    only if it is not. A batch is there as a whole or not at all.
//  - a write that had no effect has none later either, when an earlier attempt of it comes late, in the same life of its
//    shard
//  - one shard's failed database is that shard's matter; a log that failed is told to all its writes
//  - everything is answered once; counters agree with the answers; when space returns, writes pass again
//
// To add an operation: make it in random_mutation() (crash_world_writes.cc), and teach TwinShard what it does.
#ifndef SKUA_TESTS_KVSTORE_SHARD_CRASH_WORLD_H_
#define SKUA_TESTS_KVSTORE_SHARD_CRASH_WORLD_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/recovery.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/shard/crash_machine.h"
#include "tests/kvstore/shard/engine_testing.h"
#include "tests/simulation/seed_runner.h"

namespace skua::kv::sim {

class CrashWorld final : public simulation::World {
 public:
  explicit CrashWorld(uint64_t seed);
  ~CrashWorld() override;

  std::optional<std::string> run() override;
  [[nodiscard]] uint64_t trace() const override { return trace_; }
  [[nodiscard]] simulation::Summary summary() const override;

 private:
  struct Tally {
    uint64_t writes = 0, acknowledged = 0, refused = 0, doubtful = 0, repeated = 0, reads = 0, disk_reads = 0;
    uint64_t kills = 0, power_cuts = 0, orderly = 0, torn_recoveries = 0, replayed = 0, moves = 0;
    uint64_t log_failures = 0, database_failures = 0, evictions = 0, recycled = 0;
  };
  static constexpr size_t kWorkers = 2;
  using Row = Database::Row;

  struct Write {
    WriteOp op;
    size_t shard = 0;
    std::deque<std::string> bytes;
    std::vector<Mutation> mutations;
    bool is_batch = false;
  };
  /// What the twin says of a write.
  struct Verdict {
    MutationResult result;
    std::vector<MutationResult> results;
    bool has_effect = false;
  };
  /// Numbers its writes, and may repeat those whose answer it has not confirmed.
  struct Client {
    struct Told {
      std::unique_ptr<Write> write;
      Verdict verdict;
    };
    uint64_t id = 0;
    uint64_t next_seq = 1;
    std::map<uint64_t, size_t> under_way;
    std::map<uint64_t, Told> told;                        // took effect
    std::map<uint64_t, Told> refused;                     // had none, in this life of its shard
    std::map<uint64_t, std::unique_ptr<Write>> forsaken;  // was in doubt and did not take effect
    [[nodiscard]] uint64_t first_incomplete() const;
  };
  struct Read {
    FetchOp op;
    size_t shard = 0;
    std::string key;
    std::vector<Row> allowed;  // version 0: absent
  };
  struct Wait {
    AppliedWait op;
    size_t shard = 0;
    uint64_t index = 0;
  };
  struct Held {
    PinnedValue value;
    std::string copy;
  };
  struct Shard {
    ShardId id;
    size_t worker = 0;
    uint64_t epoch = 1;
    std::unique_ptr<ShardDb> db;
    kv::Shard* open = nullptr;  // null: closing, or no engine
    bool database_failed = false;
    testing::TwinShard base;  // as this life found it
    testing::TwinShard twin;  // and with all that was answered since
    std::deque<std::unique_ptr<Write>> history;
    std::deque<std::unique_ptr<Write>> doubtful;
    uint64_t synced_index = 0;   // acknowledged as synced
    uint64_t flushed_index = 0;  // or as written
    uint64_t told_index = 0;     // the highest ever, lost or not
  };
  enum Producer : uint8_t { kLog, kApplier, kReaders, kProducers };
  struct Worker {
    std::unique_ptr<WorkerEngine> engine;
    std::array<std::deque<absl::AnyInvocable<void()>>, kProducers> tasks;
    // As the answers have it, of this life.
    uint64_t refused = 0;
    uint64_t repeated = 0;
  };

  // crash_world.cc: lives
  void draw_options(uint64_t seed);
  bool start();
  bool recover(size_t worker, std::unique_ptr<Device>& device, std::unique_ptr<Log>& log);
  void adopt(Shard& shard);
  void open(Shard& shard);
  void check_life(Shard& shard, uint64_t left);
  void live();
  void end_life();
  void stop_engines();
  bool step(Worker& worker, Producer producer);
  bool run_task(Worker& worker);
  /// Until everything was answered; false: it waits for what will not come.
  bool settle();
  [[nodiscard]] bool all_answered() const;
  void close_and_open(Shard& shard);
  void check_at_rest();
  void check_writable();
  [[nodiscard]] bool databases_healthy() const;

  // crash_world_writes.cc: what clients do
  void act();
  void write_burst();
  void write(Shard& shard, std::unique_ptr<Write> write);
  Mutation random_mutation(const Shard& shard, Write& write);
  [[nodiscard]] std::string random_value();
  void submit_as_client(Shard& shard, std::unique_ptr<Write> write);
  void repeat_one(Client& client);
  void repeat(Client& client, const Write& write);
  [[nodiscard]] static std::unique_ptr<Write> copy_of(const Write& write);
  void written(Write& write);
  void repeated(const Write& write);
  void acknowledged(Shard& shard, Write& write, Verdict verdict);
  void without_effect(const Write& write, Verdict verdict);
  void forget_refused(const Shard& shard);
  [[nodiscard]] static Verdict apply(testing::TwinShard& twin, const Write& write);
  void forget_lost(size_t shard, uint64_t index);
  void move_time(uint64_t ms);
  void read(Shard& shard, const std::string& key);
  void fetched(Read& read);
  void applied(Wait& wait);
  void wait_applied(Shard& shard);
  void release_some(double share);
  [[nodiscard]] Row twin_row(const Shard& shard, std::string_view key) const;
  [[nodiscard]] std::string random_key() { return "key" + std::to_string(rng_.below(keys_)); }

  void broken(const std::string& what);
  void note(uint64_t value) { trace_ = mix64(trace_ ^ value); }

  Rng rng_;
  Machine machine_;
  LogOptions log_options_;
  WorkerEngine::Options engine_options_;
  SimDeviceFaults log_faults_;
  DatabaseFaults database_faults_;
  uint64_t capacity_bytes_ = 0;
  uint64_t keys_ = 0;
  size_t value_bytes_max_ = 0;
  double end_share_ = 0;
  // Of this life.
  std::array<double, kProducers + 1> speed_{};
  bool lost_cache_ = false;  // since it began: what was written and not synced may be lost
  bool killed_ = false;      // what was not written is lost

  std::unique_ptr<ReaderPool> readers_;
  std::vector<Shard> shards_;
  std::array<Client, 3> clients_;
  uint64_t now_ms_ = 1'000'000;
  std::array<Worker, kWorkers> workers_;
  Producer producer_ = kLog;
  std::map<const Write*, std::unique_ptr<Write>> writes_;
  std::vector<std::unique_ptr<Read>> reads_;
  std::vector<std::unique_ptr<Wait>> waits_;
  std::deque<Held> held_;

  std::string last_why_;
  std::optional<std::string> broken_;
  uint64_t trace_ = 0;
  Tally tally_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_SHARD_CRASH_WORLD_H_
