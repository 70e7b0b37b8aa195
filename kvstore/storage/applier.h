// Brings what a worker's log has committed into the shards' databases, on a thread of its own.
//
//    worker --add--> bounded queue --take what is there--> per shard: last write of each key --> one batch, its index
//      ^                                                                                              |
//      +----- report: (shard, applied index) ... -----------------------------------------------------+
//                                                    now and then: flush --> LogWriter::set_durable
//
// Each shard has a batch that grows: the more effects it has, the more writes of one key become one, and the shorter
// are the ways from key to key in the database's memtable. A batch is written when it has batch_effects effects or
// batch_bytes bytes, or when somebody needs it (hurry(): a scan of the shard waits, memory is short). No effect waits
// longer than until age_effects or age_bytes of others have come after it: the memory tier cannot use the memory around
// a value that waits, and both bound what waits together.
//
// The worker does not wake the applier's thread for each write, but when wake_effects effects are queued. Then the
// thread takes what is there, writes the batches that are due, and sleeps, though a few effects have come meanwhile.
//
// The log's window bounds the time of a restart. When the log uses more than flush_segments segments, the applier
// flushes the shards that pin the oldest segment, and the log may release it. When the log has no room, the applier
// flushes all shards (free_log). A flush does not help against records that pin the segment and were not added here,
// because they are not committed. The applier reports them to the worker (pinned_index), which may add them as internal
// rows and call keep().
//
// All effects of one log record go into one batch, together with its completion (completions.h): a round does not end
// in the middle of a record.
//
// Keys and values are views into the memory tier. It keeps them until the worker has seen the report and marked them
// clean. A shard whose batch failed gets no further batch: its writes stay in memory and in the log.
//
// A full disk is no failure: the applier keeps the batch, later effects join it, and try_again() applies it when there
// is room. A close or a keep whose flush finds no room is repeated in the same way. The memory tier and the log bound
// what waits.
#ifndef SKUA_KVSTORE_STORAGE_APPLIER_H_
#define SKUA_KVSTORE_STORAGE_APPLIER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/log/log_writer.h"
#include "kvstore/storage/batch_memory.h"
#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/round_reports.h"
#include "kvstore/storage/shard_db.h"
#include "rpc/base/mpsc_ring.h"
#include "rpc/base/wake_up.h"

namespace skua::kv {

/// The completion of a record, as the applier takes it.
struct AppliedCompletion {
  RequestId id{};
  int64_t value = 0;
  uint64_t time_ms = 0;
  std::unique_ptr<std::string> batch_results{};  ///< null: not a batch
};

/// A shard as the applier knows it. The owner sets the members of the first part, and keeps the object alive until the
/// report with `closed`.
struct AppliedShard {
  ShardDb* db = nullptr;
  LogShard log_shard = 0;
  void* context = nullptr;             ///< for the owner
  CompletionRows completions{};        ///< from open() on only the applier's thread uses them
  std::string closed_row{};            ///< shard_life.h: the row that close() writes last; empty: none
  std::atomic<bool> lacks_one{false};  ///< true: an answered write is never added; closed_row is not written

  /// Position in the stream of all items ever queued. The shard's effects before this position are to be written now.
  /// The worker sets it.
  std::atomic<uint64_t> due_count{0};

  // The members of the applier's thread.
  std::vector<AppliedEffect> batch{};
  size_t last_batch_effects = 0;
  size_t batch_bytes = 0;
  uint64_t first_count = 0;        // position of the batch's first item in the stream of all items ever queued
  uint64_t first_bytes = 0;        // of all effects before that item
  uint64_t written_count = 0;      // the shard's effects before this position were written
  AppliedCompletion completion{};  // of the record that is being taken; client id 0: none
  absl::Status failure{};
  uint64_t flushed_index = 0;  // the log was told that the shard is durable up to here
  bool attached = false;
  absl::Status held_up{};  // why the database did not take the batch, which is kept; OK: it did
  bool no_room = false;    // the last flush found the disk full
  bool closing = false;    // close() is not done yet
  bool keeping = false;    // keep() is not done yet
};

class Applier {
 public:
  struct Options {
    size_t queue_max = size_t{1} << 16;  ///< effects and completions; rounded up to a power of two
    size_t wake_effects = 4096;          ///< this many new effects wake the thread, or:
    size_t wake_bytes = size_t{4} << 20;
    size_t batch_effects = size_t{1} << 18;  ///< a shard's batch is written when it has so many, or:
    size_t batch_bytes = size_t{32} << 20;
    size_t age_effects = size_t{1} << 20;  ///< also when so many have come since its first effect, of all shards, or:
    size_t age_bytes = size_t{128} << 20;
    size_t round_effects_max = size_t{1} << 16;  ///< taken at a time, but a round goes on to the end of a record
    size_t round_bytes_max = size_t{16} << 20;
    uint64_t flush_segments = 6;  ///< with more segments in use, the shards that pin the oldest are flushed
    bool own_thread = true;       ///< false: the owner calls step() (simulations)

    /// Makes batches and ages smaller for a memory tier of less than 1 GiB.
    void fit(size_t tier_bytes);
  };

  using Report = ApplierReport;
  /// Takes the reports of a round, and reports between rounds (pinned_index, a flush that failed). Called on the
  /// applier's thread. Must not block for long.
  using OnRound = RoundReports::Give;

  struct Counters {
    uint64_t effects = 0;
    uint64_t effects_written = 0;  ///< without those that a later effect of the same key replaced
    uint64_t batches = 0;
    uint64_t flushes = 0;
  };

  /// Starts the thread, if it has one of its own. `log` must outlive the applier.
  Applier(const Options& options, LogWriter& log, OnRound on_round);
  /// Calls stop().
  ~Applier();
  Applier(const Applier&) = delete;
  Applier& operator=(const Applier&) = delete;

  // --- Thread: one, the worker's.
  /// Makes a shard known. Must come before any other call for the shard.
  void open(AppliedShard& shard);
  /// True if there is room for `count` items: with them, no more than queue_max items were added and not yet given back
  /// with taken(). A record of more than queue_max items has room when the queue is empty.
  [[nodiscard]] bool has_room(size_t count = 1) const { return queued_ == 0 || queued_ + count <= options_.queue_max; }
  /// Adds an effect that the log has committed; has_room() must have said so. The effects of one shard come in the
  /// order of their versions. `continues`: more effects of the same record follow at once.
  void add(AppliedShard& shard, const AppliedEffect& effect, bool continues = false);
  /// Adds the completion of a record, before the record's effects; has_room() must have said so.
  void add(AppliedShard& shard, AppliedCompletion completion);
  /// Gives back the room of Report::effects.
  void taken(size_t effects) { queued_ -= effects; }
  [[nodiscard]] size_t queued() const { return queued_; }
  /// Takes what was added, so that has_room() again; batches go on growing.
  void take_now();
  /// Applies what was added of the shard without waiting for more.
  void hurry(AppliedShard& shard);
  /// The same for all shards.
  void hurry_all();
  /// For a log without room: makes everything durable that was applied, so that the log may release its segments.
  /// Without this call nothing would: a log without room brings no effects, and without effects there are no rounds.
  void free_log();
  /// Applies what was added of the shard, writes its closed_row, makes both durable, and reports `closed`. Then the
  /// database may be closed. A shard whose disk is full is not closed until there is room.
  void close(AppliedShard& shard);
  /// Applies what was added of the shard, makes it durable, and reports `kept`. Must not be called again before that
  /// report.
  void keep(AppliedShard& shard);
  /// True if a shard waits for room on its disk. Then call try_again() now and then. Thread: any.
  [[nodiscard]] bool is_held_up() const { return is_held_up_.load(std::memory_order_relaxed); }
  void try_again();
  /// The disk is short of room, or has room again. While it is short, call this every few seconds: what was applied is
  /// made durable, so that the log and the databases give back the space of what was deleted. Thread: any.
  void set_short_of_room(bool is_short);

  /// Applies and flushes everything, reports, and ends the thread. A second call does nothing. Thread: any, while no
  /// thread adds.
  void stop();

  /// Without own_thread: runs one round. False: there is nothing to do.
  bool step();
  /// Without own_thread: a thread would be woken for what there is to do.
  [[nodiscard]] bool is_due() const;

  /// Thread: any.
  [[nodiscard]] Counters counters() const;

 private:
  enum class Order : uint8_t { kOpen, kClose, kKeep };
  struct Item {
    AppliedShard* shard = nullptr;
    std::variant<AppliedEffect, AppliedCompletion, Order> what{};
    bool continues = false;
  };

  void run();
  template <typename What>
  void push(AppliedShard& shard, What&& what, bool continues);
  void push_order(AppliedShard& shard, Order order);
  void make_due(std::atomic<uint64_t>& due_count);
  void announce();
  bool take_round();
  size_t take(Item& item);
  bool apply_due();
  [[nodiscard]] bool is_due(const AppliedShard& shard) const;
  void apply(AppliedShard& shard);
  void write_batch(AppliedShard& shard);
  [[nodiscard]] absl::Status end_life(AppliedShard& shard);
  [[nodiscard]] absl::Status flush(AppliedShard& shard);
  void close_in_round(AppliedShard& shard);
  void keep_in_round(AppliedShard& shard);
  void try_held_up();
  void flush_pinning();
  void tell_pinning();
  void write_waiting(AppliedShard& shard);
  void flush_outside_of_round(AppliedShard& shard);
  void make_room();

  const Options options_;
  LogWriter& log_;
  MpscRing<Item> ring_;
  WakeUp wake_up_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> free_log_{false};
  std::atomic<bool> try_again_{false};
  std::atomic<bool> makes_room_{false};  // set_short_of_room() was called
  std::atomic<bool> is_short_of_room_{false};
  std::atomic<bool> is_held_up_{false};
  std::atomic<bool> hurries_{false};
  // Positions in the stream of all items ever queued. Items before the first position are to be taken now; the effects
  // of all shards before the second position are to be written now.
  std::atomic<uint64_t> due_count_{0};
  std::atomic<uint64_t> all_due_count_{0};

  // Used by the worker.
  uint64_t pushed_count_ = 0;  // items ever queued
  size_t queued_ = 0;
  size_t unannounced_ = 0;
  size_t unannounced_bytes_ = 0;

  // Used by the applier's thread.
  uint64_t taken_count_ = 0;    // items ever taken
  uint64_t written_count_ = 0;  // the effects of all shards before this position were written
  uint64_t taken_bytes_ = 0;    // of the effects among the items ever taken
  std::vector<AppliedShard*> attached_;
  RoundReports reports_;
  std::vector<AppliedShard*> closing_;
  std::vector<AppliedShard*> keeping_;
  BatchMemory batch_memory_;
  std::vector<AppliedEffect> coalesced_;  // of a batch: what its database gets

  std::atomic<uint64_t> effects_{0};
  std::atomic<uint64_t> effects_written_{0};
  std::atomic<uint64_t> batches_{0};
  std::atomic<uint64_t> flushes_{0};
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_APPLIER_H_
