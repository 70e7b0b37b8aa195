// Deliberate faults, compiled in only for the model test's self-test (rpc/protocol/protocol_mutants.h explains the
// idea). In every other build mutant() is the constant false and costs nothing.
#ifndef SKUA_KVSTORE_MEMORY_MEMORY_MUTANTS_H_
#define SKUA_KVSTORE_MEMORY_MEMORY_MUTANTS_H_

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

#ifdef SKUA_WITH_MUTANTS
/// Set by the test before it makes its first tier.
extern MemoryMutant g_memory_mutant;
[[nodiscard]] inline bool mutant(MemoryMutant which) {
  return g_memory_mutant == which;
}
#else
[[nodiscard]] constexpr bool mutant(MemoryMutant) {
  return false;
}
#endif

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_MEMORY_MUTANTS_H_
