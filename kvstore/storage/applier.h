// Brings what a worker's log has committed into the shards' databases, on a thread of its own.
//
//    worker --add--> bounded queue --take what is there--> per shard: last write of each key --> one batch with the index
//      ^                                                                                              |
//      +----- report: (shard, applied index) ... -----------------------------------------------------+
//                                                    now and then: flush --> LogWriter::set_durable
//
// The worker does not wake it for each write: the more there is, the more writes of one key become one. It sleeps until
// there is a batch's worth, or until hurry() (a scan waits, memory is short, the end).
//
// The log's window is what bounds a restart. When it holds more than flush_segments segments, the shards that pin the
// oldest one are flushed, and the log may let it go. When the log has no room, all are (free_log). What pins it and was not
// handed here, because it is not committed yet, the worker is told of: it may add it as internal rows and ask to keep()
// them.
//
// What one record of the log did goes into one batch, its completion record (completions.h) too: a round does not end in the
// middle of a record.
//
// Keys and values are views into the memory tier, which keeps them until the worker has seen the report and marked them
// clean. A shard whose batch failed gets no further one: its writes stay in memory and in the log.
//
// A full disk is no failure: the batch is kept, and later ones join it, until there is room (try_again). So is a close whose
// flush finds no room: it is done later. Memory and log bound what waits.
#ifndef SKUA_KVSTORE_STORAGE_APPLIER_H_
#define SKUA_KVSTORE_STORAGE_APPLIER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kvstore/log/log_writer.h"
#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/storage/wake_up.h"
#include "rpc/base/mpsc_ring.h"

namespace skua::kv {

/// A completion on its way to the applier.
struct AppliedCompletion {
  RequestId id{};
  int64_t value = 0;
  uint64_t time_ms = 0;
  std::unique_ptr<std::string> batch_results{};  ///< null: not a batch
};

/// A shard as the applier knows it. The owner fills in the first part and keeps it until the shard was closed.
struct AppliedShard {
  ShardDb* db = nullptr;
  LogShard log_shard = 0;
  void* context = nullptr;             ///< the owner's
  CompletionRows completions{};        ///< the applier thread's from open() on
  std::string closed_row{};            ///< shard_life.h: what the database is told at the end; empty: nothing
  std::atomic<bool> lacks_one{false};  ///< a write that was answered will not come: the database is not told so

  // The applier thread's.
  std::vector<AppliedEffect> batch{};
  AppliedCompletion completion{};  // of the record that is being taken; client 0: none
  absl::Status failure{};
  uint64_t flushed_index = 0;  // told to the log as durable
  bool attached = false;
  absl::Status held_up{};  // why the database did not take the batch, which is kept
  bool no_room = false;    // for a flush
  bool closing = false;
  bool keeping = false;  // keep() is not done yet
};

class Applier {
 public:
  struct Options {
    size_t queue_max = size_t{1} << 16;  ///< effects and completions; rounded up to a power of two
    size_t batch_min = 1024;             ///< effects that wake it
    size_t batch_bytes_min = size_t{4} << 20;
    size_t batch_max = size_t{1} << 13;  ///< effects of one round
    size_t batch_bytes_max = size_t{16} << 20;
    uint64_t flush_segments = 6;
    bool own_thread = true;  ///< false: somebody steps it (simulations)
  };

  /// What became of a shard in one round.
  struct Report {
    AppliedShard* shard = nullptr;
    size_t effects = 0;          ///< taken from the queue, completions included
    uint64_t applied_index = 0;  ///< everything up to it is in the database
    absl::Status held_up{};      ///< why more than that is not in the database yet
    absl::Status failure{};      ///< why nothing more will come
    uint64_t pinned_index =
        0;                ///< not 0: the log needs room, and this record of the shard's stands in its oldest segment
    bool kept = false;    ///< what was added before keep() is durable
    bool closed = false;  ///< the last report of this shard
  };
  /// Once per round, on the applier's thread. Must not block for long.
  using OnRound = std::function<void(std::vector<Report>)>;

  struct Counters {
    uint64_t effects = 0;
    uint64_t effects_written = 0;  ///< the rest was coalesced
    uint64_t batches = 0;
    uint64_t flushes = 0;
  };

  /// Starts the thread, if it is to have one. `log` outlives the applier.
  Applier(const Options& options, LogWriter& log, OnRound on_round);
  /// stop()s.
  ~Applier();
  Applier(const Applier&) = delete;
  Applier& operator=(const Applier&) = delete;

  // --- Thread: one, the worker's.
  /// Before anything else of the shard.
  void open(AppliedShard& shard);
  /// Room for so many: with them, no more than queue_max were added and not yet reported as taken (see taken()). A record of
  /// more than queue_max has room when it is alone.
  [[nodiscard]] bool has_room(size_t count = 1) const { return queued_ == 0 || queued_ + count <= options_.queue_max; }
  /// An effect that the log has committed, after has_room(). Of one shard in the order of their versions. `continues`: more
  /// of the same record follows, in the same breath.
  void add(AppliedShard& shard, const AppliedEffect& effect, bool continues = false);
  /// The record's completion, after has_room(); its effects follow.
  void add(AppliedShard& shard, AppliedCompletion completion);
  /// The owner tells back the effects of a report.
  void taken(size_t effects) { queued_ -= effects; }
  [[nodiscard]] size_t queued() const { return queued_; }
  /// Applies what was added without waiting for more.
  void hurry();
  /// The log has no room: makes everything that was applied durable, so that it may let its segments go. Without it
  /// nothing would: no room, no effects, no rounds.
  void free_log();
  /// Applies what was added of the shard, makes it durable, and reports `closed`; its database may be closed then. While its disk is
  /// full it is not closed.
  void close(AppliedShard& shard);
  /// Applies what was added of the shard, makes it durable, and reports `kept`. Not again before that.
  void keep(AppliedShard& shard);
  /// Some shard waits for room on its disk: call try_again() now and then. Thread: any.
  [[nodiscard]] bool is_held_up() const { return is_held_up_.load(std::memory_order_relaxed); }
  void try_again();

  /// Applies and flushes everything, reports, and ends the thread. A second call does nothing. Thread: any, while nobody
  /// adds.
  void stop();

  /// Without own_thread: one round of what the thread does. False: there is nothing to do.
  bool step();

  /// Thread: any.
  [[nodiscard]] Counters counters() const;

 private:
  struct Open {};
  struct Close {};
  struct Keep {};
  struct Item {
    AppliedShard* shard = nullptr;
    std::variant<AppliedEffect, AppliedCompletion, Open, Close, Keep> what{};
    bool continues = false;
  };

  void run();
  void push(Item item);
  bool take_round();
  size_t take(Item& item);
  void apply(AppliedShard& shard);
  void write_batch(AppliedShard& shard);
  [[nodiscard]] absl::Status end_life(AppliedShard& shard);
  [[nodiscard]] absl::Status flush(AppliedShard& shard);
  void close_in_round(AppliedShard& shard);
  void keep_in_round(AppliedShard& shard);
  void try_held_up();
  void tell(AppliedShard& shard);
  void flush_pinning();
  void tell_pinning();
  void flush_outside_of_round(AppliedShard& shard);
  Report& report_of(AppliedShard& shard);

  const Options options_;
  LogWriter& log_;
  const OnRound on_round_;
  MpscRing<Item> ring_;
  WakeUp wake_up_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> free_log_{false};
  std::atomic<bool> try_again_{false};
  std::atomic<bool> is_held_up_{false};

  // The worker's.
  size_t queued_ = 0;
  size_t unannounced_ = 0;
  size_t unannounced_bytes_ = 0;

  // The thread's.
  std::vector<AppliedShard*> attached_;
  std::vector<Report> reports_;
  std::vector<AppliedShard*> closing_;
  std::vector<AppliedShard*> keeping_;
  absl::flat_hash_map<std::string_view, size_t> last_of_key_;
  std::vector<AppliedEffect> coalesced_;

  std::atomic<uint64_t> effects_{0};
  std::atomic<uint64_t> effects_written_{0};
  std::atomic<uint64_t> batches_{0};
  std::atomic<uint64_t> flushes_{0};
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_APPLIER_H_
