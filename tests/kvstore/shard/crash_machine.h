// A machine that ends in the middle of things, for the engine's crash test: the disks of its workers' logs and the
// databases of its shards, under one seed and one count of operations.
//
//    Machine --- end_after(n, how) ---> at the n-th operation of any disk
//                                          kill:       the process is gone, what it wrote is there
//                                          power cut:  unsynced sectors of logs are old or new, by chance
//                                       either way a database is as it was at some batch since its last flush
//
// Whoever asks a disk for something after the end gets an error; restart() settles what survived.
#ifndef SKUA_TESTS_KVSTORE_SHARD_CRASH_MACHINE_H_
#define SKUA_TESTS_KVSTORE_SHARD_CRASH_MACHINE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_db.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/log/sim_device.h"

namespace skua::kv::sim {

class Machine;

struct DatabaseFaults {
  double apply_error = 0;  ///< nothing of the batch is there
  double flush_error = 0;
  double get_error = 0;
};

/// A shard's database as it lies on the machine's disk.
class Database {
 public:
  struct Row {
    uint64_t version = 0;
    std::string value;
    uint64_t expires_at = 0;
    RecordMark mark{};
    friend bool operator==(const Row&, const Row&) = default;
  };
  using Rows = std::map<std::string, Row, std::less<>>;

  Database(Machine& machine, ShardId id) : machine_(machine), id_(id) {}

  [[nodiscard]] absl::Status apply(std::span<const AppliedEffect> effects, uint64_t index);
  [[nodiscard]] absl::Status ingest(std::span<const AppliedEffect> effects, uint64_t index);
  [[nodiscard]] absl::StatusOr<uint64_t> flush();
  [[nodiscard]] absl::StatusOr<Row> get(std::string_view key);
  [[nodiscard]] const Rows& rows() const { return rows_; }
  /// The engine's own, by keys that no user can have.
  [[nodiscard]] const Rows& internal_rows() const { return internal_rows_; }
  [[nodiscard]] uint64_t index() const { return index_; }
  [[nodiscard]] ShardId id() const { return id_; }
  /// Closed without a flush: unflushed batches are there up to one of them, by chance.
  void lose_unflushed();
  /// A copy of the other one as it is, all of it durable. While this one is closed.
  void become(const Database& other);

 private:
  struct Change {
    std::string key;
    bool deleted = false;
    Row row;
  };
  struct Batch {
    std::vector<Change> changes;
    uint64_t index = 0;
  };
  void take(std::span<const AppliedEffect> effects, uint64_t index);
  static void change(Rows& rows, Rows& internal_rows, const Batch& batch);
  void settle();

  Machine& machine_;
  const ShardId id_;
  Rows flushed_;
  Rows flushed_internal_;
  uint64_t flushed_index_ = 0;
  std::deque<Batch> unflushed_;
  Rows rows_;  // flushed_ and unflushed_
  Rows internal_rows_;
  uint64_t index_ = 0;
};

class Machine {
 public:
  enum class End : uint8_t { kKill, kPowerCut };

  Machine(uint64_t seed, size_t logs, uint64_t log_capacity_bytes);

  /// The process ends at the operation after `operations` more.
  void end_after(uint64_t operations, End how);
  void end_now(End how);
  void cancel_end() { end_at_ = ~uint64_t{0}; }
  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] End last_end() const { return how_; }
  /// What survived is settled and the machine runs. No file of a log may be in use.
  void restart();

  /// A log's disk for the process that runs now.
  [[nodiscard]] std::unique_ptr<Device> open_log_device(size_t log);
  [[nodiscard]] SimDevice& log_disk(size_t log) { return *logs_[log]; }
  [[nodiscard]] RocksdbEngine& databases() { return *engine_; }
  void make_database(ShardId id) { databases_.emplace(id, std::make_unique<Database>(*this, id)); }
  /// While it is closed.
  void remove_database(ShardId id) { databases_.erase(id); }
  [[nodiscard]] bool has_database(ShardId id) const { return databases_.contains(id); }
  [[nodiscard]] Database& database(ShardId id) { return *databases_.at(id); }

  void set_faults(const SimDeviceFaults& logs, const DatabaseFaults& databases);
  [[nodiscard]] const DatabaseFaults& database_faults() const { return database_faults_; }
  /// True: go on with the operation. False: the process has ended.
  [[nodiscard]] bool begin_operation();
  /// The same, when the operation of a database is hit: it happened or not.
  [[nodiscard]] bool begin_database_operation();
  Rng& rng() { return rng_; }
  /// Not what says that nothing happened: an operation that was hit may have.
  [[nodiscard]] static absl::Status ended() { return absl::InternalError("the simulated process has ended"); }

 private:
  class LogDevice;
  class LogDiskFile;
  class Engine;
  friend class Engine;

  Rng rng_;
  std::vector<std::unique_ptr<SimDevice>> logs_;
  std::map<ShardId, std::unique_ptr<Database>> databases_;
  std::unique_ptr<RocksdbEngine> engine_;
  DatabaseFaults database_faults_;
  bool running_ = true;
  End how_ = End::kKill;
  uint64_t operations_ = 0;
  uint64_t end_at_ = ~uint64_t{0};
};

/// A process's view of the database, which outlives it. When it is closed, what was not flushed is lost, by chance.
[[nodiscard]] std::unique_ptr<ShardDb> open_database(Database& database);

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_SHARD_CRASH_MACHINE_H_
