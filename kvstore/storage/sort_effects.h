// Sorts very many effects by key, for table files.
//
// Comparing two keys costs two cache misses, and keys often have a common beginning. So small handles are sorted: the
// eight bytes behind the beginning that all keys have in common, as a number, and the place of the effect. Keys are
// compared only where these numbers are equal.
#ifndef SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_
#define SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_

#include <vector>

#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// Sorts by key, and keeps only the last effect of each key. The effects must come in the order of their versions, and
/// be fewer than 2^32.
void sort_last_of_key(std::vector<AppliedEffect>& effects);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_
