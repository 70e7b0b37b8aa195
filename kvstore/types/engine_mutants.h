// Deliberate faults of a shard's storage, for the self-test of its simulation (rpc/base/mutant.h). The parts below have
// mutants of their own: kvstore/log/log_mutants.h, kvstore/memory/memory_mutants.h.
#ifndef SKUA_KVSTORE_TYPES_ENGINE_MUTANTS_H_
#define SKUA_KVSTORE_TYPES_ENGINE_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::kv {

enum class EngineMutant {
  kNone,
  kTruncateUnflushed,  // the log is told that a database's unflushed memtable is durable
  kCleanWhenQueued,    // memory marks a write clean when the applier has queued it, before the database has it
  kAnswerFromPending,  // a write that is refused because of a pending effect is answered before that effect is durable
  kOvertakeParked,     // a write overtakes earlier writes of its key that wait for a read
  kKeepIndexes,        // after the log refused records, a shard counts on from an index that was never written
  kIgnoreLogFailure,   // a write is acknowledged although the log failed
  kCloseUnflushed,     // a shard is closed, and leaves the log, before its database is flushed
  kEndUnflushed,       // recovery releases the log before the databases are flushed
  kKeepOldest,         // of several writes of a key in one batch, the first one reaches the database, not the last
  kDropDedupRecord,    // no mutation's completion is remembered: a retry is executed again
  kForgetByWallClock,  // a wall clock decides which clients were silent: when it jumps, a retry is executed again
  kForgetRefusals,     // a mutation without effect leaves no result: an earlier attempt that arrives late is executed
  kReissueIndices,     // after an end that may have lost answered writes, a shard gives out their indices again
  kSplitBatch,         // the applier may end a round in the middle of a batch
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_ENGINE_MUTANTS_H_
