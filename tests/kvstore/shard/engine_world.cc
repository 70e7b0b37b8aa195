#include "tests/kvstore/shard/engine_world.h"

#include <chrono>

#include "kvstore/codec/size_limits.h"
#include "kvstore/shard/evaluate.h"

namespace skua::kv::testing {

// --- FakeDisk

absl::Status FakeDisk::apply(std::span<const AppliedEffect> effects, uint64_t index) {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [&] { return !held_; });
  if (failing_) return absl::InternalError("the disk failed");
  if (full_) return absl::ResourceExhaustedError("the disk is full");
  State next = states_.back();
  for (const AppliedEffect& effect : effects) {
    if (effect.key.size() > kKeyBytesMax) {
      if (effect.value) {
        next.internal_rows[std::string(effect.key)] = {effect.version, std::string(as_string_view(*effect.value))};
      }
      if (!effect.value) next.internal_rows.erase(std::string(effect.key));
    } else if (effect.value) {
      next.rows[std::string(effect.key)] = {effect.version, std::string(as_string_view(*effect.value)),
                                            effect.expires_at, effect.mark};
    } else {
      next.rows.erase(std::string(effect.key));
    }
  }
  EXPECT_GE(index, next.index);
  next.index = index;
  states_.push_back(std::move(next));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> FakeDisk::flush() {
  const std::lock_guard lock(mutex_);
  if (failing_) return absl::InternalError("the disk failed");
  if (full_) return absl::ResourceExhaustedError("the disk is full");
  states_.erase(states_.begin(), states_.end() - 1);
  return states_.back().index;
}

FakeDisk::State FakeDisk::state() const {
  const std::lock_guard lock(mutex_);
  return states_.back();
}

void FakeDisk::fail() {
  const std::lock_guard lock(mutex_);
  failing_ = true;
}

void FakeDisk::set_full(bool full) {
  const std::lock_guard lock(mutex_);
  full_ = full;
}

void FakeDisk::crash(Rng& rng) {
  const std::lock_guard lock(mutex_);
  failing_ = false;
  const auto keep = static_cast<std::ptrdiff_t>(rng.below(states_.size()));
  states_ = {states_[static_cast<size_t>(keep)]};
}

void FakeDisk::hold(bool held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
  released_.notify_all();
}

size_t FakeDisk::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}

void FakeDisk::count_read() {
  const std::lock_guard lock(mutex_);
  ++reads_;
}

// --- FakeDbEngine

namespace {

class FakeShardDb final : public ShardDb {
 public:
  FakeShardDb(FakeDisk& disk, ShardId id) : disk_(disk), id_(id) {}
  [[nodiscard]] ShardId id() const override { return id_; }
  [[nodiscard]] absl::Status apply(std::span<const AppliedEffect> effects, uint64_t index) override {
    return disk_.apply(effects, index);
  }
  [[nodiscard]] absl::Status ingest(std::span<const AppliedEffect> effects, uint64_t index) override {
    absl::Status applied = disk_.apply(effects, index);
    return applied.ok() ? disk_.flush().status() : applied;
  }
  [[nodiscard]] absl::StatusOr<uint64_t> flush() override { return disk_.flush(); }
  [[nodiscard]] uint64_t applied_index() const override { return disk_.state().index; }
  [[nodiscard]] std::vector<InternalRow> take_internal_rows() override {
    std::vector<InternalRow> rows;
    for (const auto& [key, row] : disk_.state().internal_rows) rows.push_back({key, row.value, row.version});
    return rows;
  }
  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override {
    disk_.count_read();
    const FakeDisk::State state = disk_.state();
    const auto row = state.rows.find(key);
    if (row == state.rows.end()) return absl::NotFoundError("fake");
    auto* copy = new std::string(row->second.value);
    out = PinnedValue(
        as_byte_span(*copy), row->second.version, copy, [](void* text) { delete static_cast<std::string*>(text); },
        row->second.expires_at, row->second.mark);
    return absl::OkStatus();
  }
  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const KeyRange& range, RowVisitor visit) override {
    const FakeDisk::State state = disk_.state();
    for (const auto& [key, row] : state.rows) {
      if (key < range.start || (range.start_exclusive && key == range.start)) continue;
      if (!range.end.empty() && key >= range.end) break;
      if (is_expired(row.expires_at, range.now_ms)) continue;
      if (!visit({key, row.version, as_byte_span(row.value), row.mark})) return ScanEnd{true, state.index};
    }
    return ScanEnd{false, state.index};
  }
  [[nodiscard]] StoreStats stats() const override { return {}; }

 private:
  FakeDisk& disk_;
  const ShardId id_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardDb>> FakeDbEngine::open_db(const std::string&, ShardId id, IfMissing if_missing) {
  if (if_missing == IfMissing::kFail && !disks_.contains(id)) return absl::NotFoundError("no such shard");
  return std::make_unique<FakeShardDb>(disks_[id], id);
}

absl::StatusOr<std::vector<ShardId>> FakeDbEngine::list_shards(const std::string&) {
  std::vector<ShardId> ids;
  for (const auto& [id, disk] : disks_) ids.push_back(id);
  return ids;
}

// --- BorrowedDevice

void BorrowedDevice::Gate::close() {
  const std::lock_guard lock(mutex);
  closed = true;
}
void BorrowedDevice::Gate::open() {
  const std::lock_guard lock(mutex);
  closed = false;
  changed.notify_all();
}
void BorrowedDevice::Gate::pass() {
  std::unique_lock lock(mutex);
  waiting = true;
  changed.notify_all();
  changed.wait(lock, [&] { return !closed; });
  waiting = false;
}
void BorrowedDevice::Gate::wait_until_waiting() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return waiting; });
}

class BorrowedDevice::File final : public LogFile {
 public:
  File(std::unique_ptr<LogFile> file, Gate& gate) : file_(std::move(file)), gate_(gate) {}
  ~File() override {
    const std::lock_guard lock(gate_.device);
    file_.reset();
  }
  absl::Status write(uint64_t offset, ByteSpan bytes, WriteMode mode) override {
    gate_.pass();
    const std::lock_guard lock(gate_.device);
    return file_->write(offset, bytes, mode);
  }
  absl::Status sync() override {
    const std::lock_guard lock(gate_.device);
    return file_->sync();
  }
  absl::StatusOr<size_t> read(uint64_t offset, MutableByteSpan into) override {
    const std::lock_guard lock(gate_.device);
    return file_->read(offset, into);
  }
  void drop_cache() override {
    const std::lock_guard lock(gate_.device);
    file_->drop_cache();
  }
  [[nodiscard]] uint64_t size() const override { return file_->size(); }

 private:
  std::unique_ptr<LogFile> file_;
  Gate& gate_;
};

absl::StatusOr<std::unique_ptr<LogFile>> BorrowedDevice::create(const std::string& name, uint64_t bytes, Fill fill) {
  const std::lock_guard lock(gate_.device);
  auto file = device_.create(name, bytes, fill);
  if (!file.ok()) return file.status();
  return std::make_unique<File>(*std::move(file), gate_);
}

absl::StatusOr<std::unique_ptr<LogFile>> BorrowedDevice::open(const std::string& name) {
  const std::lock_guard lock(gate_.device);
  auto file = device_.open(name);
  if (!file.ok()) return file.status();
  return std::make_unique<File>(*std::move(file), gate_);
}

absl::Status BorrowedDevice::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(gate_.device);
  return device_.rename(from, to);
}

absl::Status BorrowedDevice::remove(const std::string& name) {
  const std::lock_guard lock(gate_.device);
  return device_.remove(name);
}

absl::StatusOr<std::vector<std::string>> BorrowedDevice::list() {
  const std::lock_guard lock(gate_.device);
  return device_.list();
}

// --- Options and tasks

LogOptions small_log_options() {
  LogOptions options;
  options.segment_bytes = 64 << 10;
  options.group_bytes_max = 16 << 10;
  options.segments_max = 12;
  options.spares_at_open = 2;
  return options;
}

WorkerEngine::Options small_engine_options() {
  WorkerEngine::Options options;
  options.memory.budget_bytes = 512 << 10;
  options.memory.region_bytes = 16 << 10;
  options.memory.try_huge_pages = false;
  options.applier.wake_effects = 64;
  options.applier.batch_effects = 64;
  options.applier.flush_segments = 3;
  return options;
}

void TaskQueue::post(absl::AnyInvocable<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  posted_.notify_one();
}

bool TaskQueue::run() {
  std::deque<absl::AnyInvocable<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
  return !tasks.empty();
}

void TaskQueue::wait() {
  std::unique_lock lock(mutex_);
  posted_.wait_for(lock, std::chrono::milliseconds(100), [&] { return !tasks_.empty(); });
}

}  // namespace skua::kv::testing
