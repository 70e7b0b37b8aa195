// The floor of a shard: the highest number that a client used which the shard has forgotten for another client. Who is
// unknown to the shard may be such a client, so its mutations up to the floor are not evaluated (completions.h).
//
//    numbers    | 1 ... 90        | 91 ...                | 90 + 2^40 ...
//               | stale, for an   | taken                 | far: raises no floor, because its client is not
//               | unknown client  |                       | forgotten for another
//                          floor
#ifndef SKUA_KVSTORE_COMPLETIONS_COMPLETION_FLOOR_H_
#define SKUA_KVSTORE_COMPLETIONS_COMPLETION_FLOOR_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kvstore/completions/completion_limits.h"

namespace skua::kv {

/// Times are those of records, in ms. Thread: one at a time.
class CompletionFloor {
 public:
  CompletionFloor() = default;
  /// A floor that was stored.
  CompletionFloor(uint64_t seq, uint64_t raised_ms) : seq_(seq), raised_ms_(raised_ms) {}

  /// The highest number that counts as stale from a client that the shard does not know; 0: none does. No forgotten
  /// client repeats a mutation kClientSilentMsMax after the last one was forgotten.
  [[nodiscard]] uint64_t at(uint64_t now_ms) const { return is_silence(raised_ms_, now_ms) ? 0 : seq_; }
  [[nodiscard]] bool is_far(uint64_t seq) const { return seq > seq_ && seq - seq_ > kCompletionSeqStepMax; }
  /// The number that a client which the shard does not know should begin with.
  [[nodiscard]] uint64_t first_taken(uint64_t now_ms) const {
    const uint64_t room = std::numeric_limits<uint64_t>::max() - seq_;
    return at(now_ms) == 0 ? 1 : seq_ + std::min(room, kCompletionSeqMargin);
  }
  /// A client that used numbers up to `seq` was forgotten for another.
  void raise(uint64_t seq, uint64_t now_ms) {
    seq_ = std::max(seq_, seq);
    raised_ms_ = std::max(raised_ms_, now_ms);
  }
  /// False: it did not rise after `latest_ms`. True: it counts as raised at `latest_ms` from now on.
  [[nodiscard]] bool bound_time(uint64_t latest_ms) {
    if (raised_ms_ <= latest_ms) return false;
    raised_ms_ = latest_ms;
    return true;
  }

  /// What is stored. 0: no client was forgotten for another.
  [[nodiscard]] uint64_t seq() const { return seq_; }
  [[nodiscard]] uint64_t raised_ms() const { return raised_ms_; }

 private:
  uint64_t seq_ = 0;
  uint64_t raised_ms_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_COMPLETIONS_COMPLETION_FLOOR_H_
