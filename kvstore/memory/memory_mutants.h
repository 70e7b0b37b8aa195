// Deliberate faults of the memory tier, for the self-test of its model test (rpc/base/mutant.h).
#ifndef SKUA_KVSTORE_MEMORY_MEMORY_MUTANTS_H_
#define SKUA_KVSTORE_MEMORY_MEMORY_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::kv {

enum class MemoryMutant {
  kNone,
  kReuseRegionEarly,    // a region is reused while somebody reads from it
  kEvictDirty,          // a region is evicted before its writes are in the durable tier
  kDropTombstone,       // a deletion leaves no tombstone, so reads find the durable tier's older value
  kStaleFill,           // a fill replaces any version that is there
  kIgnoreTicket,        // a fill does not notice a newer version that was written and evicted since the miss
  kMarkCleanTooFar,     // a region counts as clean when the first of its writes is durable
  kForwardDropsExpiry,  // copying a hot item forward loses its expiry time
  kKeepDroppedShard,    // the next shard gets a dropped shard's number, and so its items
  kLoseItemOnSplit,     // growing the index forgets an item of an overflow bucket
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_MEMORY_MUTANTS_H_
