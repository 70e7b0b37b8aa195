// Sorts very many effects by key, for table files and for the applier's batches: a memtable's skip list looks for a key
// from the place of the key before (rocksdb_engine.cc).
//
// Comparing two keys costs two cache misses, and keys often have a common beginning. So small handles are sorted: the
// eight bytes behind the beginning that all keys have in common, as a number, and the place of the effect. Then most
// runs of equal numbers are writes of one key. The last one stays, after one comparison for each of the others, or none
// if the eight bytes are the rest of the key. Only runs of different keys are sorted by whole keys.
#ifndef SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_
#define SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_

#include <span>
#include <vector>

#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// `sorted` gets the last effect of each key, in the order of the keys. The effects must come in the order of their
/// versions, and be fewer than 2^32.
void sort_last_of_key(std::span<const AppliedEffect> effects, std::vector<AppliedEffect>& sorted);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_
