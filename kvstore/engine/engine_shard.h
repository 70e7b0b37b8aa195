// A shard inside of its worker's engine, and a read of its database. For worker_engine*.cc only.
#ifndef SKUA_KVSTORE_ENGINE_ENGINE_SHARD_H_
#define SKUA_KVSTORE_ENGINE_ENGINE_SHARD_H_

#include <string>
#include <vector>

#include "kvstore/engine/worker_engine.h"

namespace skua::kv {

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
  absl::Status status;  // the reader's
  PinnedValue value;
  EngineFetch* next_free = nullptr;

 private:
  WorkerEngine& engine_;
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

  // Writes that were evaluated and not yet answered, in that order.
  WriteOp* front = nullptr;
  WriteOp* back = nullptr;
  size_t in_log = 0;  // records whose group is not back yet
  /// A key's last effect among them. Keys are views into the ops.
  absl::flat_hash_map<std::string_view, WriteOp*> pending;
  /// Keys whose state is being read for writes, which wait there.
  absl::flat_hash_map<std::string_view, EngineFetch*> parked;
  /// Keys that are being read for GETs.
  absl::flat_hash_map<std::string_view, EngineFetch*> reading;
  std::vector<AppliedWait*> waits;

  bool started = false;    // in the log
  bool touched = false;    // in touched_
  bool stalled = false;    // in stalled_
  bool lost_one = false;   // a committed write was not given to memory, so none after it goes to the applier
  bool failing = false;    // a write at the front failed: so do those behind it
  bool in_doubt = false;   // the failed log may hold a write that was not acknowledged
  absl::Status refusal{};  // until what is in the log has come back: the log had no room
  absl::Status failure{};  // for good

  AppliedShard applied{};
  LogOp start_op{LogOp::Kind::kShardStart};
  LogOp end_op{LogOp::Kind::kShardEnd};
  absl::AnyInvocable<void()> on_closed;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_ENGINE_SHARD_H_
