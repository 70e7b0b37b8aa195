// Checks what a barrier in a shard's log says (kvstore/codec/effect.h has its bytes).
#ifndef SKUA_KVSTORE_STORAGE_BARRIER_H_
#define SKUA_KVSTORE_STORAGE_BARRIER_H_

#include "absl/status/status.h"
#include "kvstore/replication/epoch_history.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// INVALID_ARGUMENT if the payload is a barrier that the primary of the entry's epoch cannot have made. OK for any
/// other payload. `payload` has no entry's head.
[[nodiscard]] absl::Status check_barrier(EntryId id, ByteSpan payload);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_BARRIER_H_
