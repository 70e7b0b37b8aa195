// A shard's storage, modelled: a log that is a sequence of operations (append, truncate), of which a prefix is written
// and a shorter one durable; a view, a commit index hint, a state that is flushed now and then.
//
//    submitted  [a a a t a a a a a]
//    written    [-----------]          survives the process
//    durable    [-------]              survives a power cut
//
// When the process is killed, anything from the written prefix to all of it is left; after a power cut, anything from
// the durable prefix to the written one.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_MODEL_STORAGE_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_MODEL_STORAGE_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "tests/kvstore/replication/shard_storage.h"
#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

/// A node's disk: shared by its shards.
struct DiskModel {
  DurationNs write_ns = 0;
  DurationNs sync_ns = 0;
  DurationNs jitter_ns = 0;
  bool hangs = false;
  bool full = false;
  TimeNs stalled_until = 0;
  TimeNs paused_until = 0;  // the process: it hears of nothing before
  uint64_t life = 0;        // of the process: what was under way in another one is lost
};

class ModelStorage final : public ShardStorage {
 public:
  ModelStorage(SimKernel& kernel, DiskModel& disk, size_t keys);

  Found recover(Sink* sink) override;
  bool append(const LogEntry& entry) override;
  void truncate_after(uint64_t index) override;
  void trim(uint64_t index) override;
  [[nodiscard]] uint64_t first_index() const override { return base_.index + 1; }
  [[nodiscard]] uint64_t last_index() const override { return base_.index + live_.size(); }
  [[nodiscard]] const LogEntry& entry(uint64_t index) const override { return live_[index - base_.index - 1].entry; }
  [[nodiscard]] LogLevels levels() const override;
  [[nodiscard]] TimeNs waiting_since() const override;
  void persist_view(const View& view) override;
  void hint_commit_index(uint64_t index) override;
  void flush(const ShardState& state) override;
  [[nodiscard]] uint64_t flushed_index() const override { return flushed_.applied(); }
  void install(const ShardState& state, EntryId base, bool keep_log) override;

  // --- The world's side

  /// The process has ended. True: something that was submitted is gone.
  void end_process(bool power_cut);
  /// Another disk.
  void wipe();
  /// Whether the entry is there at this level, or in a snapshot.
  [[nodiscard]] bool holds(EntryId entry, Durability level) const;
  [[nodiscard]] uint64_t durable_epoch() const { return view_.epoch; }

 private:
  struct Live {
    LogEntry entry;
    uint64_t op = 0;  // its number
  };
  struct Op {
    bool truncate = false;
    uint64_t index = 0;
    LogEntry entry;
    TimeNs since = 0;
  };

  void submit(Op op);
  void write();
  void sync();
  void later(DurationNs after, absl::AnyInvocable<void()> then);
  void apply_to_disk(uint64_t up_to);
  [[nodiscard]] uint64_t level_of(uint64_t ops) const;

  SimKernel& kernel_;
  DiskModel& disk_;
  const size_t keys_;
  Sink* sink_ = nullptr;

  EntryId base_;
  std::deque<Live> live_;

  // Operations are numbered from 1; ops_ holds those behind durable_ops_.
  std::deque<Op> ops_;
  uint64_t submitted_ops_ = 0;
  uint64_t written_ops_ = 0;
  uint64_t durable_ops_ = 0;
  bool writing_ = false;
  bool syncing_ = false;
  uint64_t generation_ = 0;  // of the log: a snapshot makes a new one

  // On disk.
  std::deque<LogEntry> disk_log_;  // from base_ on
  View view_;
  std::optional<View> view_under_way_;
  uint64_t commit_hint_ = 0;
  ShardState flushed_;
  bool flushing_ = false;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_MODEL_STORAGE_H_
