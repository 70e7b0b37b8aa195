// The parts of the engine behind its header: a shard, a read of its database, and what batches, relaxed writes and
// replicas need. For worker_engine*.cc only.
#ifndef SKUA_KVSTORE_SHARD_ENGINE_SHARD_H_
#define SKUA_KVSTORE_SHARD_ENGINE_SHARD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kvstore/shard/shard_clock.h"
#include "kvstore/shard/uncommitted_keys.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/storage/shard_life.h"

namespace skua::kv {

/// What the engine knows of a batch while it works on it. Keys are views into the mutations.
struct BatchWork {
  /// A key whose state before the batch is needed, because its first operation in the batch depends on that state.
  /// Later operations on the key see the effect of the first.
  struct Needed {
    std::string_view key;
    bool value = false;  // true: the value is needed; false: its version is enough
  };
  /// What the database has of a needed key.
  struct Fetched {
    uint64_t version = 0;  // 0: absent
    uint64_t expires_at = 0;
    PinnedValue value;  // kept only if Needed::value
  };

  std::vector<Needed> needed;
  absl::flat_hash_set<std::string_view> seen;
  absl::flat_hash_map<std::string_view, Fetched> fetched;
  size_t fetched_bytes = 0;  // of the values in `fetched`
  size_t fetching = 0;
  absl::Status failure;

  // After the evaluation: the last effect of each key.
  std::vector<Effect> effects;
  absl::flat_hash_map<std::string_view, size_t> effect_of_key;
  std::vector<size_t> operation_of_effect;  // the last operation that made the effect
  std::deque<std::string> made;  // the value that each operation made; empty if a later operation replaced it
  size_t record_bytes = 0;       // the bytes that the record needs for what was evaluated so far
  std::string results;           // the results, as the completion record holds them
  std::string payload;           // of the record; after encode_batch() the effects are views into it
  std::vector<MemoryTier::BatchWrite> writes;

  void clear();
  void drop_fetched();
  void find_needed(std::span<const Mutation> batch);
};

/// A read of one key from the database that is under way, for GETs or for writes of this key. Recycled.
class EngineFetch final : public ReadJob {
 public:
  explicit EngineFetch(WorkerEngine& engine) : engine_(engine) {}

  /// Reads the key. Thread: a reader.
  void run() override;

  EngineShard* shard = nullptr;
  std::string key;
  MemoryTier::Ticket ticket;
  FetchOp* first_read = nullptr;
  FetchOp* last_read = nullptr;
  WriteOp* first_write = nullptr;  // linked by `behind`
  WriteOp* last_write = nullptr;
  const BatchWork::Needed* for_batch = nullptr;  // not null: the read is for the batch that is the shard's barrier
  absl::Status status;                           // what the reader found
  PinnedValue value;
  bool is_copy = false;  // `value` owns its memory
  EngineFetch* next_free = nullptr;

 private:
  WorkerEngine& engine_;
};

/// A record whose write is answered before the log has written the record. It owns its bytes. Recycled.
struct RelaxedRecord final : LogOp {
  RelaxedRecord() : LogOp(Kind::kRelaxed) {}

  WriteOp* op = nullptr;  // null when the write is answered
  uint64_t index = 0;
  int64_t time_ms = 0;
  bool urgent = false;
  bool abandoned = false;  // its write was answered with an error
  std::string payload;
  RelaxedRecord* next_free = nullptr;
};

/// An entry of a replicated shard. The record lives until the entry is applied, no peer needs it, and the log has let
/// go of its bytes. Recycled.
struct ReplicaRecord final : LogOp {
  ReplicaRecord() : LogOp(Kind::kReplica) {}

  uint64_t index = 0;
  uint64_t epoch = 0;
  int64_t time_ms = 0;
  Durability durability = Durability::kSync;
  std::array<std::byte, kEntryHeadBytes> head{};
  std::string payload;
  bool in_log = false;   // given to the log, and not back yet
  bool in_row = false;   // a row of the database has the entry, or will have it (replica_rows.h)
  bool counted = false;  // counted in the shard's uncommitted_bytes
  bool dropped = false;  // not an entry any more; released when nothing uses its bytes
  uint32_t pins = 0;
  WorkerEngine* engine = nullptr;
  ReplicaRecord* next_free = nullptr;
};

/// The state that only a replicated shard has.
struct EngineReplica {
  std::deque<ReplicaRecord*> entries;  // in the order of their indices, without gaps, up to the shard's last_index
  size_t bytes = 0;                    // of the payloads in `entries`
  uint64_t commit_limit = 0;           // entries up to this index are committed and may be applied
  uint64_t log_start = 0;              // the log begins behind this index
  bool leading = false;
  bool on_hold = false;      // while leading: no new entries now
  bool closed = false;       // the shard is being closed: nothing more is applied, also nothing that waited for room
  uint64_t entry_epoch = 0;  // while leading: the epoch of new entries
  bool log_moved = false;    // Events::log_moved is due
  bool unsynced = false;     // the log has written entries that it has not synced
  bool refused = false;      // its argument `refused`
  std::string runs;          // of the last barrier that was applied
  // Indices of rows to be deleted with the next batch: their entries were truncated or applied.
  std::vector<uint64_t> rows;
  UncommittedKeys uncommitted;  // keys of entries behind committed_index, while a backup answers reads
  /// Internal rows on their way to the applier. The applier has views of their bytes.
  struct Row {
    uint64_t index = 0;
    std::string key;
    std::string value;
  };
  std::deque<Row> row_bytes;
  std::deque<AppliedEffect> tail;  // rows that wait for room in the applier

  size_t uncommitted_bytes = 0;  // of entries that came by append_entry() and are not committed
  // Keeping: entries that are not committed go into rows, because the log needs the segment in which they stand
  // (worker_engine_tail.cc).
  bool keeping = false;         // rows are on their way to the database
  bool keep_asked = false;      // the applier has all of these rows and was asked to keep() them
  bool begins_anew = false;     // when the rows are kept, the log is to forget all it has of the shard
  uint64_t kept_index = 0;      // the last entry that is in the rows, now or when the log was told last
  uint64_t log_epoch = 0;       // the epoch of the last record that was given to the log
  std::vector<Effect> effects;  // scratch
  std::vector<MemoryTier::BatchWrite> writes;
  absl::flat_hash_set<std::string_view> keys;  // scratch of check_entry()
};

struct EngineShard {
  ShardDb* db = nullptr;
  uint32_t number = 0;  // the shard's number in the memory tier
  LogShard log_shard = 0;
  uint64_t epoch = 0;

  // Indices: applied <= committed (in memory, answered) <= written (in the log) <= last (given out).
  uint64_t last_index = 0;
  uint64_t written_index = 0;
  uint64_t committed_index = 0;
  uint64_t applied_index = 0;
  uint64_t synced_index = 0;  // this record and all earlier ones are known to be on the disk

  // The queue: writes that were evaluated and are not answered yet, in the order of their evaluation.
  WriteOp* front = nullptr;
  WriteOp* back = nullptr;
  size_t in_log = 0;  // records of the shard that the log has and has not reported yet
  struct Pending {
    WriteOp* op = nullptr;
    size_t effect = 0;  // which effect of a batch
  };
  /// Each key's last effect in the queue. The map's keys are views into the ops.
  absl::flat_hash_map<std::string_view, Pending> pending;
  /// Keys whose state is being read from the database. The writes of these keys wait in the fetch.
  absl::flat_hash_map<std::string_view, EngineFetch*> parked;
  /// A batch that waits for reads, and the writes that came after it.
  WriteOp* barrier = nullptr;
  WriteOp* waiting_front = nullptr;
  WriteOp* waiting_back = nullptr;
  /// Keys that are being read for GETs.
  absl::flat_hash_map<std::string_view, EngineFetch*> reading;
  std::vector<AppliedWait*> waits;

  ShardLife life;
  CompletionTable completions;
  ShardClock clock;
  /// First attempts that are not answered yet, by (client, seq).
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, WriteOp*> under_way;
  /// Records of answered writes that the log refused. They are given to the log again, in the order of their indices.
  std::vector<RelaxedRecord*> unlogged;
  uint64_t resubmitted_ms = 0;

  bool started = false;        // the log has a start of the shard, or was given one
  bool touched = false;        // in touched_
  bool stalled = false;        // in stalled_
  bool has_apply_gap = false;  // a committed write was not given to memory; no later write goes to the applier
  bool failing = false;        // a write at the front failed, so the writes behind it fail too
  bool in_doubt = false;       // the failed log may hold a write that was not acknowledged
  bool leaving = false;        // the applier has let go of the shard
  bool ending = false;         // the shard's end is on the way to the log
  absl::Status refusal{};      // not OK: the log had no room; cleared when all records in the log are back
  absl::Status failure{};      // not OK: why the shard refuses writes for good
  absl::Status held_up{};      // not OK: why the database does not take its writes; the engine tries again

  std::unique_ptr<EngineReplica> replica;  // null: not replicated
  ReplicaRows rows;                        // filled by open_shard(), taken over by replicate()

  AppliedShard applied{};
  std::list<LogOp> starts;  // starts under way; an entry that replaces others may need one before the last is back
  LogOp end_op{LogOp::Kind::kShardEnd};
  absl::AnyInvocable<void()> on_closed;
  uint64_t closing_since_ms = 0;  // unix time; 0: it is not being closed
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ENGINE_SHARD_H_
