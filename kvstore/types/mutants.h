// Deliberate faults of the store, for the self-tests of its simulations (rpc/base/mutant.h). One of them is active at a
// time.
#ifndef SKUA_KVSTORE_TYPES_MUTANTS_H_
#define SKUA_KVSTORE_TYPES_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::kv {

enum class Mutant {
  kNone,

  // The log.
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

  // The memory tier.
  kReuseRegionEarly,    // a region is reused while somebody reads from it
  kEvictDirty,          // a region is evicted before its writes are in the durable tier
  kDropTombstone,       // a deletion leaves no tombstone, so reads find the durable tier's older value
  kStaleFill,           // a fill replaces any version that is there
  kIgnoreTicket,        // a fill does not notice a newer version that was written and evicted since the miss
  kMarkCleanTooFar,     // a region counts as clean when the first of its writes is durable
  kForwardDropsExpiry,  // copying a hot item forward loses its expiry time
  kKeepDroppedShard,    // the next shard gets a dropped shard's number, and so its items
  kLoseItemOnSplit,     // growing the index forgets an item of an overflow bucket

  // A shard's storage.
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

  // The replica. tests/kvstore/replication/replication_sim_main.cc counts them from the first to the last.
  kAckBeforeDurable,   // a member acknowledges entries as durable that it has only received
  kServeAfterLease,    // reads are served although the lease is over
  kSkipEpochCheck,     // a message of an older epoch is accepted
  kNoPromiseWait,      // a new primary commits before its promises have run out
  kForgetPromises,     // a restarted replica does not wait until its promises from before the restart have expired
  kLearnerHole,        // a learner is called ready before it has everything, and is not waited for
  kTruncateCommitted,  // a member cuts its log back to its commit index in a new view
  kCommitAtMajority,   // the slowest member is not waited for
  kReleaseTwice,       // a release of an older epoch ends a promise
  kSnapshotOffByOne,   // a snapshot is believed to have one entry more than it has
  kOpenBeforeBarrier,  // a new primary serves before its first entry is committed
  kKeepOldAcks,        // acknowledgements of a former leadership are counted in a new one
  kBelieveUnverified,  // a member acknowledges entries of its old log that may differ from the primary's

  // What stands between the storage, the replicas, peers and clients.
  kReadWithoutLease,  // a read is answered although another replica may lead
  kSkipViewFile,      // a replica is told that its view is durable, and no file has the view
  kSkipUnsyncedFile,  // a replica may acknowledge unsynced writes, and no file says so
  kKeepGivenUpData,   // data of a fork that was given up become those of a replica in the new fork
  kOpenAnewForCopy,   // a copy that was fetched is dropped, and an empty database takes its place
  kStaleCopy,         // a copy of a shard is taken although the replica has acknowledged more meanwhile
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_MUTANTS_H_
