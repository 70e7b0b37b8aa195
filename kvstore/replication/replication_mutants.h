// Deliberate faults of the replica, for the self-tests of the simulations (rpc/base/mutant.h).
#ifndef SKUA_KVSTORE_REPLICATION_REPLICATION_MUTANTS_H_
#define SKUA_KVSTORE_REPLICATION_REPLICATION_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::kv {

enum class ReplicaMutant {
  kNone,
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
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_REPLICATION_MUTANTS_H_
