// Committed records of a shard: into memory, where readers see them, and to the applier, which brings them to the
// database. All records of a running shard pass here: a primary's writes, and the entries of other replicas.
//
//    record ---> room in memory and in the applier?    no: nothing is done; try again later
//                  memory: all of its effects, dirty
//                  applier: the completion, rows of entries (tail_rows.h), the effects, whose bytes are memory's
#ifndef SKUA_KVSTORE_SHARD_SHARD_APPLY_H_
#define SKUA_KVSTORE_SHARD_SHARD_APPLY_H_

#include <cstdint>
#include <optional>
#include <span>

#include "kvstore/codec/effect.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/attempts.h"
#include "kvstore/shard/entry.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/write_op.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Thread: the worker's.
class ShardApply {
 public:
  /// `attempts` learns the completions of the records.
  ShardApply(ShardContext& shard, Attempts& attempts) : shard_(shard), attempts_(attempts) {}

  /// Makes the write visible, and sets its result. Its record is as durable as was asked for. False: there is no room
  /// just now.
  [[nodiscard]] bool apply(WriteOp& op);
  /// Of a replicated shard: applies the entries that are committed. False: there is no room just now.
  [[nodiscard]] bool apply_entries();

 private:
  /// A committed record, decoded.
  struct Record {
    uint64_t index = 0;
    uint64_t record_ms = 0;
    std::span<const HashedEffect> effects{};
    const Completion* completion = nullptr;  // null: it has none
    std::optional<ByteSpan> runs{};          // of a barrier
  };

  [[nodiscard]] bool apply(Entry& entry);
  [[nodiscard]] MemoryTier::Put apply(const Record& record);
  [[nodiscard]] MemoryTier::Put put(const Record& record);
  void hand_on(const Record& record);

  ShardContext& shard_;
  Attempts& attempts_;
  std::span<MemoryTier::BatchWrite> written_;  // by the last put(); empty: it had one effect, or none
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_APPLY_H_
