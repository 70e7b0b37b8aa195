// Deliberate faults of the storage engine, compiled in only for the crash test's self-test (see rpc/protocol/protocol_mutants.h for the
// idea; kvstore/log/log_mutants.h and kvstore/memory/memory_mutants.h for the parts below). In every other build engine_mutant() is the constant false and
// costs nothing.
#ifndef SKUA_KVSTORE_TYPES_ENGINE_MUTANTS_H_
#define SKUA_KVSTORE_TYPES_ENGINE_MUTANTS_H_

namespace skua::kv {

enum class EngineMutant {
  kNone,
  kTruncateUnflushed,  // the log is told that what a database has in memory is durable
  kCoalesceFirst,      // of several writes of a key in one batch, the first one reaches the database
  kCleanWhenQueued,    // memory takes for clean what the applier has taken, before the database shows it
  kAnswerFromPending,  // a write that a pending effect refuses is answered before that effect is durable
  kOvertakeParked,     // a write passes earlier ones of its key that wait for a read
  kKeepIndexes,        // after a refusal a shard counts on from an index that was not written
  kIgnoreLogFailure,   // a write is acknowledged although the log failed
  kCloseUnflushed,     // a shard leaves the log before its database is durable
  kEndUnflushed,       // recovery lets the log go before the databases are durable
  kReplayOldest,       // recovery applies the first write of a key in a chunk
  kDropDedupRecord,    // a mutation's completion is forgotten as soon as it is there: a retry is executed again
  kForgetByWallClock,  // wall clocks decide who was silent for long: when one jumps, a retry is executed again
  kForgetRefusals,     // a mutation without effect leaves no result: an earlier attempt that comes late is executed
  kReissueIndices,     // after an end that may have lost answered writes a shard counts on from what is left
  kSplitBatch,         // the applier may end a round in the middle of a batch
};

#ifdef SKUA_WITH_MUTANTS
/// Set by the crash test before it makes its first engine.
extern EngineMutant g_engine_mutant;
[[nodiscard]] inline bool engine_mutant(EngineMutant which) {
  return g_engine_mutant == which;
}
#else
[[nodiscard]] constexpr bool engine_mutant(EngineMutant) {
  return false;
}
#endif

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_ENGINE_MUTANTS_H_
