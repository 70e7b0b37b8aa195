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

#include "absl/container/flat_hash_map.h"
#include "kvstore/shard/evaluate.h"
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
    pending_.clear();
    while (!kept.empty()) {
      WriteOp& op = kept.pop();
      writes_.push(op);
      if (op.state != WriteOp::State::kAnswered) enter(op);
    }
    return removed;
  }

  /// The state of the key after its last pending effect; nullopt: the key has none.
  [[nodiscard]] std::optional<CurrentState> pending(std::string_view key) const {
    const auto found = pending_.find(key);
    if (found == pending_.end()) return std::nullopt;
    const WriteOp& op = *found->second.op;
    const Effect& newest = op.effects()[found->second.effect];
    return newest.value ? CurrentState{op.index, *newest.value, newest.expires_at, newest.mark} : CurrentState{};
  }
  [[nodiscard]] bool is_pending(std::string_view key) const { return pending_.contains(key); }
  /// The effects of the write are pending from now on. The write's bytes stay where they are until withdraw().
  void enter(WriteOp& op) {
    const std::span<const Effect> effects = op.effects();
    for (size_t i = 0; i < effects.size(); ++i) {
      const auto [found, is_new] = pending_.try_emplace(effects[i].key, Pending{&op, i});
      if (is_new) continue;
      pending_.erase(found);  // its key is a view into the earlier write
      pending_.emplace(effects[i].key, Pending{&op, i});
    }
  }
  /// The effects of the write are in memory, or will never be.
  void withdraw(const WriteOp& op) {
    for (const Effect& effect : op.effects()) {
      const auto found = pending_.find(effect.key);
      if (found != pending_.end() && found->second.op == &op) pending_.erase(found);
    }
  }

 private:
  struct Pending {
    const WriteOp* op = nullptr;
    size_t effect = 0;  // which effect of a batch
  };

  WriteList writes_;
  /// Each key's last effect in the queue. The keys are views into the writes.
  absl::flat_hash_map<std::string_view, Pending> pending_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_WRITE_QUEUE_H_
