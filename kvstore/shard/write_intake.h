// The way of a shard's writes to their evaluation. A write is evaluated at once if the state of its keys is at hand:
// pending in the queue, in memory, or not needed. Otherwise:
//
//    one mutation   the key is read from the database; later writes of the key wait behind it ("parked")
//    a batch        all later writes of the shard wait behind it ("barrier"):
//
//      begin --- a key's state must be read, or is being read for an earlier write? --- no ---> evaluated
//                  | yes                                                              ^
//                  +---> read some of what is missing ---> look again ----------------+
//
// The keys of a batch may have far more bytes of values than memory has room for: 1,024 values of 16 MiB. So only a few
// values are read at a time. Only values that an operation works on are kept, and if these are too many bytes the batch
// is refused.
#ifndef SKUA_KVSTORE_SHARD_WRITE_INTAKE_H_
#define SKUA_KVSTORE_SHARD_WRITE_INTAKE_H_

#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "kvstore/shard/fetch.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/shard/write_queue.h"

namespace skua::kv {

/// Thread: the worker's.
class WriteIntake {
 public:
  /// Evaluated writes go to the shard. `queue`: the shard's.
  WriteIntake(ShardContext& shard, const WriteQueue& queue) : shard_(shard), queue_(queue) {}

  /// No write waits for its evaluation.
  [[nodiscard]] bool empty() const { return parked_.empty() && barrier_ == nullptr && waiting_.empty(); }
  void take(WriteOp& op);
  /// A read for writes is done.
  void fetched(KeyFetch& fetch);

 private:
  void dispatch(WriteOp& op);
  /// What the database said of a key. The key is in that state as long as memory gives the same ticket for it.
  struct Read {
    CurrentState state;
    MemoryTier::Ticket ticket;
  };
  void evaluate_one(WriteOp& op, const Read* read);
  void park(WriteOp& op, MemoryTier::Ticket ticket);
  void unpark(KeyFetch& fetch);

  void try_batch();
  void resume();
  [[nodiscard]] bool gather(WriteOp& op);
  void evaluate_batch(WriteOp& op);
  [[nodiscard]] CurrentState state_before(const BatchWork& work, const HashedKey& key, PinnedValue& pin);

  ShardContext& shard_;
  const WriteQueue& queue_;
  /// Keys whose state is being read from the database. The writes of these keys wait in the fetch.
  absl::flat_hash_map<std::string_view, KeyFetch*> parked_;
  WriteOp* barrier_ = nullptr;  // a batch that waits for reads
  WriteList waiting_;           // the writes that came after it
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_WRITE_INTAKE_H_
