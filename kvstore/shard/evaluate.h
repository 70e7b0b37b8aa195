// What a mutation does to a key, given the key's state and the time: conditions, counters, patches, and their answers.
// Nothing here knows where data is kept.
#ifndef SKUA_KVSTORE_SHARD_EVALUATE_H_
#define SKUA_KVSTORE_SHARD_EVALUATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvstore/types/expiry.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A key's state. Version 0: the key is absent.
struct CurrentState {
  uint64_t version = 0;
  ByteSpan value{};
  uint64_t expires_at = 0;  ///< unix time in ms from which on the key is absent; 0: never
  RecordMark mark{};
};

/// The state of a key that is absent.
inline constexpr CurrentState kAbsent{};

struct Evaluated {
  /// kOk: the mutation takes effect, and the caller sets its version, which is the index that the mutation gets
  /// (unless is_unchanged). Any other status: the answer.
  MutationResult result;
  /// kOk: the key's new value; nullopt: the key is deleted. A view into the mutation or `scratch`.
  std::optional<ByteSpan> value{};
  uint64_t expires_at = 0;    ///< kOk: when `value` expires
  RecordMark mark{};          ///< kOk: the record's
  bool is_unchanged = false;  ///< kOk: the mutation has no effect, and `result` is the whole answer
  std::string_view why{};     ///< not kOk: for people, if the status does not say enough; a constant
};

/// True if the result depends on the key's state. Only an unconditional PUT that keeps no time to live does not depend
/// on it.
[[nodiscard]] inline bool needs_current(const Mutation& mutation) {
  return mutation.kind != Mutation::Kind::kPut || mutation.condition.kind != Condition::Kind::kNone ||
         mutation.keep_ttl;
}

/// Whether a check holds: kOk or kVersionMismatch, with the key's version. A check has no effect.
[[nodiscard]] MutationResult evaluate_check(const Mutation& check, const CurrentState& current, uint64_t now_ms);

/// `mutation` is no check (otherwise INVALID_ARGUMENT). `current` is not used if needs_current() is false. `now_ms` is
/// unix time. A value that is computed (by any mutation but a PUT) is built in `scratch`; `current` must not lie in
/// `scratch`.
[[nodiscard]] Evaluated evaluate(const Mutation& mutation, const CurrentState& current, uint64_t now_ms,
                                 std::string& scratch);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_EVALUATE_H_
