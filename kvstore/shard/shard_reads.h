// Reads of a shard that memory cannot answer: of single keys, and of the database as a whole.
//
//    fetch()       a miss in memory ---> a reader ---> into memory, answered
//                  a second miss of the key, and nothing wrote to it in between ---> shares the read
//    is_applied()  a scan waits until the database shows what was committed when the scan arrived
#ifndef SKUA_KVSTORE_SHARD_SHARD_READS_H_
#define SKUA_KVSTORE_SHARD_SHARD_READS_H_

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/fetch.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/types/pinned_value.h"

namespace skua::kv {

/// Thread: the worker's.
class ShardReads {
 public:
  explicit ShardReads(ShardContext& shard) : shard_(shard) {}

  [[nodiscard]] bool empty() const { return reading_.empty() && waits_.empty(); }

  /// Keeps in memory a value that was read from the database after the miss that gave `ticket`. True: a get finds it.
  bool fill(std::string_view key, const PinnedValue& value, MemoryTier::Ticket ticket);
  /// Reads a key from the database after a miss in memory, whose ticket is `ticket`. Ends in EngineEvents::fetch_done.
  void fetch(FetchOp& op, MemoryTier::Ticket ticket);
  /// A read for GETs is done. `filled`: memory has taken the value.
  void fetched(KeyFetch& fetch, bool filled);

  /// True: the database shows everything that is committed now. False: EngineEvents::applied tells when it does, or why
  /// it will not.
  [[nodiscard]] bool is_applied(AppliedWait& wait);
  /// The database shows more than before, or it takes no writes now. Answers the waits that end by this.
  void note_applied();

 private:
  [[nodiscard]] const absl::Status& in_vain() const { return shard_.failure.ok() ? shard_.held_up : shard_.failure; }

  ShardContext& shard_;
  /// Keys that are being read for GETs. The map's keys are views into the fetches.
  absl::flat_hash_map<std::string_view, KeyFetch*> reading_;
  std::vector<AppliedWait*> waits_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_READS_H_
