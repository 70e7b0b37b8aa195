// Deliberate faults of the log, compiled in only for the crash test's self-test (see rpc/protocol/protocol_mutants.h for the idea). In
// every other build log_mutant() is the constant false and costs nothing.
#ifndef SKUA_KVSTORE_LOG_LOG_MUTANTS_H_
#define SKUA_KVSTORE_LOG_LOG_MUTANTS_H_

namespace skua::kv {

enum class LogMutant {
  kNone,
  kSkipSync,            // a sync group is written but not synced
  kAcknowledgeEarly,    // a sync group is reported before its sync, which comes with the next group
  kReportBeforeCommit,  // a group is reported as durable, and its writes applied, before it is written
  kSyncOwnOnly,         // a durable write is taken for a sync of the unsynced groups before it
  kTruncateTooFar,      // a segment goes although a shard's last record in it is not durable elsewhere
  kKeepReplaced,        // what is kept elsewhere counts also for the records that replaced it
  kAcceptBadCrc,        // records are believed whatever their checksum says
  kCutInTheMiddle,      // damage below a synced position is taken for a torn tail
  kSameSeed,            // checksums do not depend on the segment: stale records of a recycled file pass
  kForgetTable,         // a new segment does not say where its shards stand
};

#ifdef SKUA_WITH_MUTANTS
/// Set by the crash test before it opens its first log.
extern LogMutant g_active_log_mutant;
[[nodiscard]] inline bool log_mutant(LogMutant which) {
  return g_active_log_mutant == which;
}
#else
[[nodiscard]] constexpr bool log_mutant(LogMutant) {
  return false;
}
#endif

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_MUTANTS_H_
