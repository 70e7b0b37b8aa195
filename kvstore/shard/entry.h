// A record of the log that owns its bytes. Two kinds of records do:
//
//    of a write with durability "memory"   the write is answered before the log has written the record
//    of a replicated shard                 an entry: a peer may ask for the bytes long after the write was answered
//
//    pool ---> in the log ---> kept (peers, copies) ---> drop() ---> pool, when neither log nor pins use the bytes
#ifndef SKUA_KVSTORE_SHARD_ENTRY_H_
#define SKUA_KVSTORE_SHARD_ENTRY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/shard/log_op.h"
#include "kvstore/types/durability.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

struct WriteOp;
class EntryPool;

/// An entry of a replicated shard, in the form in which peers get it.
struct ReplicaEntry {
  uint64_t index = 0;
  uint64_t epoch = 0;  ///< the epoch of the primary that made the entry
  int64_t time_ms = 0;
  Durability durability = Durability::kSync;
  ByteSpan payload{};  ///< the effects (effect.h), without the entry's head
};

/// Recycled by its pool. Thread: the worker's; see LogOp.
struct Entry final : LogOp {
  Entry() : LogOp(Kind::kEntry) {}

  uint64_t index = 0;
  uint64_t epoch = 0;
  int64_t time_ms = 0;
  Durability durability = Durability::kSync;
  std::string payload;
  bool in_log = false;  // given to the log, and not back yet

  // Of a write that is answered first.
  WriteOp* write = nullptr;  // null when the write is answered
  bool urgent = false;
  bool abandoned = false;  // the write was answered with an error

  // Of a replicated shard.
  std::array<std::byte, kEntryHeadBytes> head{};
  bool in_row = false;   // a row of the database has the entry, or will have it (replica_rows.h)
  bool counted = false;  // counted as not committed
  bool dropped = false;  // not an entry any more; released when nothing uses its bytes
  uint32_t pins = 0;

  EntryPool* pool = nullptr;
  Entry* next_free = nullptr;

  /// The entry without its head. A view, until the entry is released.
  [[nodiscard]] ReplicaEntry view() const { return {index, epoch, time_ms, durability, as_byte_span(payload)}; }
  [[nodiscard]] size_t memory_bytes() const { return sizeof(*this) + payload.size(); }

  /// The entry is not one of its shard any more. Its pool gets it when neither log nor pins use its bytes.
  void drop();
  /// The log does not use the entry's bytes any more.
  void leave_log();
  void pin() { ++pins; }
  void unpin();
  /// unpin() as the release function of a message's body. `entry` is an Entry*.
  static void release_pin(void* entry) { static_cast<Entry*>(entry)->unpin(); }
};

/// Entries that are not in use. Outlives them. Thread: one at a time.
class EntryPool {
 public:
  /// The payload is empty.
  [[nodiscard]] Entry& acquire(Shard& shard, uint64_t index, uint64_t epoch, int64_t time_ms, Durability durability);
  void release(Entry& entry);

 private:
  std::vector<std::unique_ptr<Entry>> all_;
  Entry* free_ = nullptr;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ENTRY_H_
