// What a shard gives to the worker's log and gets back with the log's outcome: a write whose bytes are borrowed, a
// record that owns its bytes (entry.h), or the shard's start or end in the log.
#ifndef SKUA_KVSTORE_SHARD_LOG_OP_H_
#define SKUA_KVSTORE_SHARD_LOG_OP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kvstore/types/durability.h"

namespace skua::kv {

class Shard;

/// The worker's thread has the op, except between its submission and its return: then the log's thread has the op.
struct LogOp {
  enum class Kind : uint8_t { kWrite, kEntry, kShardStart, kShardEnd };
  explicit LogOp(Kind what) : kind(what) {}

  const Kind kind;
  Shard* shard = nullptr;
  LogOp* next = nullptr;                            // the next op of a group that comes back from the log
  absl::Status outcome{};                           // the log's status for this op
  Durability log_durability = Durability::kMemory;  // what the log achieved
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_LOG_OP_H_
