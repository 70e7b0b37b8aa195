// The writes of a shard that are evaluated and not answered yet, in the order of their evaluation, and their effects.
//
//    queue     [ put a | add b | refused | put a ] ---> answered from the front, in order
//    pending     a -> 4th, b -> 2nd                     the state that the next write finds
//
// Effects that are in the queue are "pending": the evaluation of later writes sees them, and readers do not. An answer
// that rests on a pending effect, such as ALREADY_EXISTS, waits in the queue behind that effect.
#ifndef SKUA_KVSTORE_SHARD_WRITE_QUEUE_H_
#define SKUA_KVSTORE_SHARD_WRITE_QUEUE_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "kvstore/codec/key_hash.h"
#include "kvstore/shard/evaluate.h"
#include "kvstore/shard/key_places.h"
#include "kvstore/shard/write_op.h"

namespace skua::kv {

/// Does not own the writes. Thread: one at a time.
class WriteQueue {
 public:
  [[nodiscard]] bool empty() const { return writes_.empty(); }
  [[nodiscard]] WriteOp* front() const { return writes_.front(); }
  void push(WriteOp& op) { writes_.push(op); }
  /// The queue must not be empty.
  WriteOp& pop() { return writes_.pop(); }
  /// Removes the first write for which `stays` is false and all writes behind it, and returns them in order. Their
  /// effects are not pending any more.
  template <typename Stays>
  [[nodiscard]] WriteList cut(Stays stays) {
    WriteList kept;
    WriteList removed;
    while (!writes_.empty()) {
      const bool remains = removed.empty() && stays(*writes_.front());
      (remains ? kept : removed).push(writes_.pop());
    }
    pending_.reset();
    while (!kept.empty()) {
      WriteOp& op = kept.pop();
      writes_.push(op);
      if (op.state != WriteOp::State::kAnswered) enter(op);
    }
    return removed;
  }

  /// The state of the key after its last pending effect; nullopt: the key has none.
  [[nodiscard]] std::optional<CurrentState> pending(const HashedKey& key) const {
    const Pending* const found = pending_.find(key.hash, IsOf{key.text});
    if (found == nullptr) return std::nullopt;
    const Effect& newest = found->newest();
    return newest.value ? CurrentState{found->op->index, *newest.value, newest.expires_at, newest.mark}
                        : CurrentState{};
  }
  /// The effects of the write are pending from now on. The write's bytes stay where they are until withdraw().
  void enter(WriteOp& op) {
    const std::span<const HashedEffect> effects = op.effects();
    for (size_t i = 0; i < effects.size(); ++i) {
      const Pending newest{&op, i};
      *pending_.try_add(effects[i].key_hash, newest, IsOf{effects[i].key}).first = newest;
    }
  }
  /// The effects of the write are in memory, or will never be.
  void withdraw(const WriteOp& op) {
    const std::span<const HashedEffect> effects = op.effects();
    for (size_t i = 0; i < effects.size(); ++i) {
      // A later write of the key has another place.
      const auto is_own = [&](const Pending& pending) { return pending.op == &op && pending.effect == i; };
      static_cast<void>(pending_.remove(effects[i].key_hash, is_own));
    }
  }

 private:
  struct Pending {
    const WriteOp* op = nullptr;
    size_t effect = 0;  // which effect of a batch

    [[nodiscard]] const Effect& newest() const { return op->effects()[effect]; }
  };
  struct IsOf {
    std::string_view key;
    bool operator()(const Pending& pending) const { return pending.newest().key == key; }
  };

  WriteList writes_;
  KeyPlaces<Pending> pending_;  // each key's last effect in the queue
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_WRITE_QUEUE_H_
