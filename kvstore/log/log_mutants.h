// Deliberate faults of the log, for the self-test of its simulation (rpc/base/mutant.h).
#ifndef SKUA_KVSTORE_LOG_LOG_MUTANTS_H_
#define SKUA_KVSTORE_LOG_LOG_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::kv {

enum class LogMutant {
  kNone,
  kSkipSync,            // a sync group is written but not synced
  kAcknowledgeEarly,    // a sync group is reported as durable before its sync, which comes with the next group
  kReportBeforeCommit,  // a group is reported as durable, and its writes applied, before it is written
  kSyncOwnOnly,         // a durable write is taken for a sync of the unsynced groups before it
  kTruncateTooFar,      // a segment is given back although a shard's last records in it are not durable elsewhere
  kKeepReplaced,        // records that replaced kept ones count as kept, too
  kAcceptBadCrc,        // records with a wrong checksum are accepted
  kCutInTheMiddle,      // damage to a group that was durable is taken for a torn tail
  kSameSeed,            // checksums do not depend on the segment: stale records of a recycled file pass
  kForgetTable,         // a new segment's header has no shard positions
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_MUTANTS_H_
