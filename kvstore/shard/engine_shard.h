// A shard inside of its worker's engine, a read of its database, and what batches and relaxed writes need. For
// worker_engine*.cc only.
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

/// What a batch is made of on its way. Keys are views into the mutations.
struct BatchWork {
  /// A key whose first operation rests on what was there before; later ones see what that one did.
  struct Needed {
    std::string_view key;
    bool value = false;  // else its version is enough
  };
  /// What the database has of it.
  struct Fetched {
    uint64_t version = 0;  // 0: absent
    uint64_t expires_at = 0;
    PinnedValue value;  // if it is needed
  };

  std::vector<Needed> needed;
  absl::flat_hash_set<std::string_view> seen;
  absl::flat_hash_map<std::string_view, Fetched> fetched;
  size_t fetched_bytes = 0;  // of values that are kept
  size_t fetching = 0;
  absl::Status failure;

  // Evaluated: the last effect of each key.
  std::vector<Effect> effects;
  absl::flat_hash_map<std::string_view, size_t> effect_of_key;
  std::vector<size_t> operation_of_effect;  // the last one that made it
  std::deque<std::string> made;             // values, by operation; empty if a later one replaced it
  size_t record_bytes = 0;                  // of what was evaluated so far
  std::string results;                      // as the completion holds them
  std::string payload;                      // of the record; the effects are views into it then
  std::vector<MemoryTier::BatchWrite> writes;

  void clear();
  void drop_fetched();
  void find_needed(std::span<const Mutation> batch);
};

/// A read of a database under way: for the GETs, or for the writes, of one key. Recycled.
class EngineFetch final : public ReadJob {
 public:
  explicit EngineFetch(WorkerEngine& engine) : engine_(engine) {}

  /// On a reader thread.
  void run() override;

  EngineShard* shard = nullptr;
  std::string key;
  MemoryTier::Ticket ticket;
  FetchOp* first_read = nullptr;
  FetchOp* last_read = nullptr;
  WriteOp* first_write = nullptr;  // linked by `behind`
  WriteOp* last_write = nullptr;
  const BatchWork::Needed* for_batch = nullptr;  // the shard's barrier's
  absl::Status status;                           // the reader's
  PinnedValue value;
  bool is_copy = false;  // the value lies in memory of its own
  EngineFetch* next_free = nullptr;

 private:
  WorkerEngine& engine_;
};

/// A record whose write is answered before the log has written it: it has bytes of its own. Recycled.
struct RelaxedRecord final : LogOp {
  RelaxedRecord() : LogOp(Kind::kRelaxed) {}

  WriteOp* op = nullptr;  // until it is answered
  uint64_t index = 0;
  int64_t time_ms = 0;
  bool urgent = false;
  bool abandoned = false;  // its write was not answered as done
  std::string payload;
  RelaxedRecord* next_free = nullptr;
};

/// An entry of a replicated shard, from when it is known until it is applied, no peer needs it, and the log has let go of its
/// bytes. Recycled.
struct ReplicaRecord final : LogOp {
  ReplicaRecord() : LogOp(Kind::kReplica) {}

  uint64_t index = 0;
  uint64_t epoch = 0;
  int64_t time_ms = 0;
  Durability durability = Durability::kSync;
  std::array<std::byte, kEntryHeadBytes> head{};
  std::string payload;
  bool in_log = false;   // given to it and not back
  bool in_row = false;   // a row of the database has it, or will (replica_rows.h)
  bool counted = false;  // among the shard's uncommitted_bytes
  bool dropped = false;  // no entry any more; released when nothing uses its bytes
  uint32_t pins = 0;
  WorkerEngine* engine = nullptr;
  ReplicaRecord* next_free = nullptr;
};

/// What a replicated shard has in addition.
struct EngineReplica {
  std::deque<ReplicaRecord*> entries;  // by index, without gaps, up to the shard's last_index
  size_t bytes = 0;                    // of their payloads
  uint64_t commit_limit = 0;           // may be applied
  uint64_t log_start = 0;              // the log begins behind this index
  bool leading = false;
  bool on_hold = false;         // leading: but no new entries now
  bool closed = false;          // the applier has been told: nothing may follow, also of what waited for room
  uint64_t entry_epoch = 0;     // leading: of new entries
  bool log_moved = false;       // to be told
  bool unsynced = false;        // the log has written what it has not synced
  bool refused = false;         // to be told
  std::string runs;             // of the last barrier that was applied
  std::vector<uint64_t> rows;   // of entries that were truncated or applied: to be deleted with the next batch
  UncommittedKeys uncommitted;  // of entries behind committed_index, while reads are answered without leading
  /// Internal rows on their way to the applier, which has views of them.
  struct Row {
    uint64_t index = 0;
    std::string key;
    std::string value;
  };
  std::deque<Row> row_bytes;
  std::deque<AppliedEffect> tail;  // rows that the applier has no room for yet

  size_t uncommitted_bytes = 0;  // of what others made, and is not committed
  // Entries that are not committed go into rows, because the log needs the segment that they stand in
  // (worker_engine_tail.cc).
  bool keeping = false;         // rows are on their way
  bool keep_asked = false;      // and the applier has all of them
  bool begins_anew = false;     // the log holds what is no entry any more: it is to forget all of the shard then
  uint64_t kept_index = 0;      // the last entry that the rows are of, or were of when the log was told last
  uint64_t log_epoch = 0;       // of the last record that the log was given
  std::vector<Effect> effects;  // scratch
  std::vector<MemoryTier::BatchWrite> writes;
  absl::flat_hash_set<std::string_view> keys;  // of one entry, only while it is looked at
};

struct EngineShard {
  ShardDb* db = nullptr;
  uint32_t number = 0;  // the memory tier's
  LogShard log_shard = 0;
  uint64_t epoch = 0;

  // Indices: applied <= committed (in memory, answered) <= written (in the log) <= last (given out).
  uint64_t last_index = 0;
  uint64_t written_index = 0;
  uint64_t committed_index = 0;
  uint64_t applied_index = 0;
  uint64_t synced_index = 0;  // known to be on the disk; as is all below

  // Writes that were evaluated and not yet answered, in that order.
  WriteOp* front = nullptr;
  WriteOp* back = nullptr;
  size_t in_log = 0;  // records whose group is not back yet
  struct Pending {
    WriteOp* op = nullptr;
    size_t effect = 0;  // which of a batch's
  };
  /// A key's last effect among them. Keys are views into the ops.
  absl::flat_hash_map<std::string_view, Pending> pending;
  /// Keys whose state is being read for writes, which wait there.
  absl::flat_hash_map<std::string_view, EngineFetch*> parked;
  /// A batch that waits for reads, and what came after it.
  WriteOp* barrier = nullptr;
  WriteOp* waiting_front = nullptr;
  WriteOp* waiting_back = nullptr;
  /// Keys that are being read for GETs.
  absl::flat_hash_map<std::string_view, EngineFetch*> reading;
  std::vector<AppliedWait*> waits;

  ShardLife life;
  CompletionTable completions;
  ShardClock clock;
  /// First attempts that are not answered, by client and seq.
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, WriteOp*> under_way;
  /// Answered, and refused by the log: to be given to it again. In the order of their indices.
  std::vector<RelaxedRecord*> unlogged;
  uint64_t resubmitted_ms = 0;

  bool started = false;    // in the log
  bool touched = false;    // in touched_
  bool stalled = false;    // in stalled_
  bool lost_one = false;   // a committed write was not given to memory, so none after it goes to the applier
  bool failing = false;    // a write at the front failed: so do those behind it
  bool in_doubt = false;   // the failed log may hold a write that was not acknowledged
  bool leaving = false;    // the applier has let go of it
  bool ending = false;     // its end is on the way to the log
  absl::Status refusal{};  // until what is in the log has come back: the log had no room
  absl::Status failure{};  // for good
  absl::Status held_up{};  // why the database does not take what it was given; it is tried again

  std::unique_ptr<EngineReplica> replica;  // null: not replicated
  ReplicaRows rows;                        // until replicate()

  AppliedShard applied{};
  std::list<LogOp> starts;  // under way: an entry that replaces earlier ones may need another before the first is back
  LogOp end_op{LogOp::Kind::kShardEnd};
  absl::AnyInvocable<void()> on_closed;
  uint64_t closing_since_ms = 0;  // unix time; 0: it is not being closed
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ENGINE_SHARD_H_
