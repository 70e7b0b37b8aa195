// Deliberate faults of what stands between the engine, the replicas, peers and clients, for the self-test of the
// cluster's simulation (rpc/base/mutant.h).
#ifndef SKUA_KVSTORE_TYPES_WORKER_MUTANTS_H_
#define SKUA_KVSTORE_TYPES_WORKER_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::kv {

enum class WorkerMutant {
  kNone,
  kReadWithoutLease,  // a read is answered although another replica may lead
  kSkipViewFile,      // a replica is told that its view is durable, and no file has the view
  kSkipUnsyncedFile,  // a replica may acknowledge unsynced writes, and no file says so
  kKeepGivenUpData,   // data of a fork that was given up become those of a replica in the new fork
  kOpenAnewForCopy,   // a copy that was fetched is dropped, and an empty database takes its place
  kStaleCopy,         // a copy of a shard is taken although the replica has acknowledged more meanwhile
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_WORKER_MUTANTS_H_
