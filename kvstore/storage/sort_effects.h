// Sorts very many effects by key, for table files.
//
// Comparing keys costs two cache misses each, and keys tend to begin alike. So what is sorted is small: the eight bytes behind
// what all keys have in common, as a number, and the effect's place; keys are looked at where these are equal.
#ifndef SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_
#define SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_

#include <vector>

#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// By key, of each key only its last effect. Before, the effects stand in the order of their versions. Fewer than 2^32.
void sort_last_of_key(std::vector<AppliedEffect>& effects);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_SORT_EFFECTS_H_
