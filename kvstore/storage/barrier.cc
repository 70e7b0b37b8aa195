#include "kvstore/storage/barrier.h"

#include "kvstore/codec/effect.h"
#include "kvstore/replication/epoch_history.h"

namespace skua::kv {

absl::Status check_barrier(EntryId id, ByteSpan payload) {
  const auto runs = read_barrier(payload);
  if (!runs || are_runs_of_barrier(*runs, id)) return absl::OkStatus();
  return absl::InvalidArgumentError("a barrier tells of another log than the one that it is in");
}

}  // namespace skua::kv
