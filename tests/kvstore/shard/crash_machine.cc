#include "tests/kvstore/shard/crash_machine.h"

#include <utility>

#include "kvstore/codec/size_limits.h"
#include "rpc/base/check.h"

namespace skua::kv::sim {

// --- Database

void Database::change(Rows& rows, Rows& internal_rows, const Batch& batch) {
  for (const Change& change : batch.changes) {
    Rows& where = change.key.size() > kKeyBytesMax ? internal_rows : rows;
    if (change.deleted) {
      where.erase(change.key);
    } else {
      where[change.key] = change.row;
    }
  }
}

void Database::take(std::span<const AppliedEffect> effects, uint64_t index) {
  SKUA_CHECK(index >= index_, "a database goes back");
  Batch& batch = unflushed_.emplace_back();
  batch.index = index_ = index;
  for (const AppliedEffect& effect : effects) {
    Change& change = batch.changes.emplace_back();
    change.key = effect.key;
    change.deleted = !effect.value;
    if (effect.value)
      change.row = {effect.version, std::string(as_string_view(*effect.value)), effect.expires_at, effect.mark};
  }
  change(rows_, internal_rows_, batch);
}

void Database::settle() {
  flushed_ = rows_;
  flushed_internal_ = internal_rows_;
  flushed_index_ = index_;
  unflushed_.clear();
}

absl::Status Database::apply(std::span<const AppliedEffect> effects, uint64_t index) {
  if (!machine_.begin_database_operation()) return Machine::ended();
  if (machine_.rng().chance(machine_.database_faults().apply_error)) return absl::InternalError("simulated EIO");
  take(effects, index);
  return machine_.running() ? absl::OkStatus() : Machine::ended();
}

absl::Status Database::ingest(std::span<const AppliedEffect> effects, uint64_t index) {
  if (absl::Status applied = apply(effects, index); !applied.ok()) return applied;
  settle();
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Database::flush() {
  if (!machine_.begin_database_operation()) return Machine::ended();
  if (machine_.rng().chance(machine_.database_faults().flush_error)) return absl::InternalError("simulated EIO");
  settle();
  if (!machine_.running()) return Machine::ended();
  return index_;
}

absl::StatusOr<Database::Row> Database::get(std::string_view key) {
  if (!machine_.running()) return Machine::ended();
  if (machine_.rng().chance(machine_.database_faults().get_error)) return absl::InternalError("simulated EIO");
  const auto row = rows_.find(key);
  if (row == rows_.end()) return absl::NotFoundError("no such key");
  return row->second;
}

void Database::lose_unflushed() {
  const uint64_t kept = machine_.rng().below(unflushed_.size() + 1);
  for (uint64_t i = 0; i < kept; ++i) {
    change(flushed_, flushed_internal_, unflushed_[i]);
    flushed_index_ = unflushed_[i].index;
  }
  unflushed_.clear();
  rows_ = flushed_;
  internal_rows_ = flushed_internal_;
  index_ = flushed_index_;
}

void Database::become(const Database& other) {
  rows_ = other.rows_;
  internal_rows_ = other.internal_rows_;
  index_ = other.index_;
  settle();
}

// --- A process's view of it

namespace {

class OpenDatabase final : public ShardDb {
 public:
  explicit OpenDatabase(Database& database) : database_(database) {}
  ~OpenDatabase() override { database_.lose_unflushed(); }

  [[nodiscard]] ShardId id() const override { return database_.id(); }
  [[nodiscard]] absl::Status apply(std::span<const AppliedEffect> effects, uint64_t index) override {
    return database_.apply(effects, index);
  }
  [[nodiscard]] absl::Status ingest(std::span<const AppliedEffect> effects, uint64_t index) override {
    return database_.ingest(effects, index);
  }
  [[nodiscard]] absl::StatusOr<uint64_t> flush() override { return database_.flush(); }
  [[nodiscard]] uint64_t applied_index() const override { return database_.index(); }
  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override {
    auto row = database_.get(key);
    if (!row.ok()) return row.status();
    auto* copy = new std::string(std::move(row->value));
    out = PinnedValue(
        as_byte_span(*copy), row->version, copy, [](void* text) { delete static_cast<std::string*>(text); },
        row->expires_at, row->mark);
    return absl::OkStatus();
  }
  [[nodiscard]] std::vector<InternalRow> take_internal_rows() override {
    std::vector<InternalRow> rows;
    for (const auto& [key, row] : database_.internal_rows()) rows.push_back({key, row.value, row.version});
    return rows;
  }
  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const KeyRange&, RowVisitor) override {
    return absl::UnimplementedError("the crash test reads rows()");
  }
  [[nodiscard]] StoreStats stats() const override { return {}; }

 private:
  Database& database_;
};

}  // namespace

std::unique_ptr<ShardDb> open_database(Database& database) {
  return std::make_unique<OpenDatabase>(database);
}

class Machine::Engine final : public RocksdbEngine {
 public:
  explicit Engine(Machine& machine) : machine_(machine) {}

  [[nodiscard]] absl::StatusOr<std::unique_ptr<ShardDb>> open_db(const std::string&, ShardId id,
                                                                 IfMissing if_missing) override {
    if (!machine_.begin_operation()) return ended();
    const auto found = machine_.databases_.find(id);
    if (found != machine_.databases_.end()) return open_database(*found->second);
    if (if_missing == IfMissing::kFail) return absl::NotFoundError("no such shard");
    machine_.make_database(id);
    return open_database(machine_.database(id));
  }
  [[nodiscard]] absl::Status destroy_shard(const std::string&, ShardId id) override {
    if (!machine_.running()) return ended();
    machine_.remove_database(id);
    return absl::OkStatus();
  }
  [[nodiscard]] absl::StatusOr<std::vector<ShardId>> list_shards(const std::string&) override {
    if (!machine_.running()) return ended();
    std::vector<ShardId> shards;
    for (const auto& [id, database] : machine_.databases_) shards.push_back(id);
    return shards;
  }

 private:
  Machine& machine_;
};

class Machine::LogDiskFile final : public LogFile {
 public:
  LogDiskFile(Machine& machine, std::unique_ptr<LogFile> file) : machine_(machine), file_(std::move(file)) {}
  absl::Status write(uint64_t offset, ByteSpan bytes, WriteMode mode) override {
    return machine_.begin_operation() ? file_->write(offset, bytes, mode) : ended();
  }
  absl::Status sync() override { return machine_.begin_operation() ? file_->sync() : ended(); }
  absl::StatusOr<size_t> read(uint64_t offset, MutableByteSpan into) override {
    if (!machine_.running()) return ended();
    return file_->read(offset, into);
  }
  void drop_cache() override { file_->drop_cache(); }
  [[nodiscard]] uint64_t size() const override { return file_->size(); }

 private:
  Machine& machine_;
  const std::unique_ptr<LogFile> file_;
};

class Machine::LogDevice final : public Device {
 public:
  LogDevice(Machine& machine, SimDevice& disk) : machine_(machine), disk_(disk) {}
  absl::StatusOr<std::unique_ptr<LogFile>> create(const std::string& name, uint64_t bytes, Fill fill) override {
    if (!machine_.begin_operation()) return ended();
    return wrapped(disk_.create(name, bytes, fill));
  }
  absl::StatusOr<std::unique_ptr<LogFile>> open(const std::string& name) override {
    if (!machine_.running()) return ended();
    return wrapped(disk_.open(name));
  }
  absl::Status rename(const std::string& from, const std::string& to) override {
    return machine_.begin_operation() ? disk_.rename(from, to) : ended();
  }
  absl::Status remove(const std::string& name) override {
    return machine_.begin_operation() ? disk_.remove(name) : ended();
  }
  absl::StatusOr<std::vector<std::string>> list() override {
    if (!machine_.running()) return ended();
    return disk_.list();
  }
  [[nodiscard]] std::string path_of(const std::string& name) const override { return disk_.path_of(name); }

 private:
  absl::StatusOr<std::unique_ptr<LogFile>> wrapped(absl::StatusOr<std::unique_ptr<LogFile>> file) {
    if (!file.ok()) return file.status();
    return std::make_unique<LogDiskFile>(machine_, *std::move(file));
  }

  Machine& machine_;
  SimDevice& disk_;
};

// --- Machine

Machine::Machine(uint64_t seed, size_t logs, uint64_t log_capacity_bytes)
    : rng_(seed), engine_(std::make_unique<Engine>(*this)) {
  for (size_t i = 0; i < logs; ++i) logs_.push_back(std::make_unique<SimDevice>(rng_.next(), log_capacity_bytes));
}

void Machine::end_after(uint64_t operations, End how) {
  end_at_ = operations_ + operations;
  how_ = how;
}

void Machine::end_now(End how) {
  if (!running_) return;
  running_ = false;
  how_ = how;
}

bool Machine::begin_operation() {
  if (!running_) return false;
  if (operations_++ != end_at_) return true;
  running_ = false;
  if (how_ == End::kKill) return false;
  for (const auto& log : logs_) log->crash_after(0);  // this operation is hit
  return true;
}

bool Machine::begin_database_operation() {
  if (!running_) return false;
  if (operations_++ != end_at_) return true;
  running_ = false;
  return rng_.chance(0.5);
}

void Machine::restart() {
  end_now(End::kKill);
  for (const auto& log : logs_) how_ == End::kPowerCut ? log->restart() : log->reopen();
  running_ = true;
  cancel_end();
}

void Machine::set_faults(const SimDeviceFaults& logs, const DatabaseFaults& databases) {
  for (const auto& log : logs_) log->set_faults(logs);
  database_faults_ = databases;
}

std::unique_ptr<Device> Machine::open_log_device(size_t log) {
  return std::make_unique<LogDevice>(*this, *logs_[log]);
}

}  // namespace skua::kv::sim
