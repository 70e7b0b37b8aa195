// What all parts of a shard (shard.h) see of each other.
#ifndef SKUA_KVSTORE_SHARD_SHARD_CONTEXT_H_
#define SKUA_KVSTORE_SHARD_SHARD_CONTEXT_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/shard_clock.h"
#include "kvstore/shard/worker_resources.h"
#include "kvstore/storage/applier.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/mutants.h"

namespace skua::kv {

class EntryLog;

/// How far a shard's records have come. applied <= committed <= last; synced <= written <= last. A write with
/// durability "memory" is committed before its record is written.
struct ShardIndices {
  uint64_t last = 0;       ///< given out
  uint64_t written = 0;    ///< the log has written this record and all earlier ones
  uint64_t synced = 0;     ///< they are known to be on the disk
  uint64_t committed = 0;  ///< in memory, and answered
  uint64_t applied = 0;    ///< in the database
};

/// Owned by the shard. Thread: the worker's.
struct ShardContext {
  WorkerResources& worker;
  Shard& shard;
  ShardDb& db;
  uint32_t number = 0;          ///< the shard's number in the memory tier
  EntryLog* entries = nullptr;  ///< null: the shard is not replicated
  ShardIndices at{};
  ShardClock clock{};
  AppliedShard applied{};
  absl::Status failure{};      ///< not OK: why the shard refuses writes for good
  absl::Status held_up{};      ///< not OK: why the database does not take its writes; the applier tries again
  bool has_apply_gap = false;  ///< a committed write was not given to memory; no later write goes to the applier
  bool in_doubt = false;       ///< the failed log may hold a write that was not acknowledged

  [[nodiscard]] HashedKey hashed(std::string_view key) const { return worker.hasher(key); }
  [[nodiscard]] ItemKey item_key(const HashedKey& key) const { return {number, key.text, key.hash}; }
  [[nodiscard]] MemoryTier::Lookup get(const HashedKey& key) const {
    return worker.memory->get(item_key(key), worker.now_ms);
  }
  /// The time by which the shard forgets its clients.
  [[nodiscard]] uint64_t time_ms() const {
    if (mutant(Mutant::kForgetByWallClock)) return worker.now_ms;
    return clock.now_ms(worker.steady_ms, worker.now_ms);
  }
  /// The time stamp of the next record.
  [[nodiscard]] uint64_t next_record_ms() const { return clock.stamp_ms(worker.steady_ms, worker.now_ms); }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_CONTEXT_H_
