// What a mutation does to a key, given the key's state and the time: conditions, counters, patches and their answers, apart
// from where data is kept.
#ifndef SKUA_KVSTORE_SHARD_EVALUATE_H_
#define SKUA_KVSTORE_SHARD_EVALUATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kvstore/types/expiry.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A key's state; version 0: absent.
struct CurrentState {
  uint64_t version = 0;
  ByteSpan value{};
  uint64_t expires_at = 0;  ///< absent from this time on; 0: never
};

struct Evaluated {
  /// kOk: it takes effect, and its version is the index that it gets. Else the answer.
  MutationResult result;
  /// kOk: what the key has then; nullopt: nothing. A view into the mutation or `scratch`.
  std::optional<ByteSpan> value{};
  uint64_t expires_at = 0;  ///< kOk: of `value`
};

/// True if the key's state makes a difference: all but an unconditional PUT.
[[nodiscard]] inline bool needs_current(const Mutation& mutation) {
  return mutation.kind != Mutation::Kind::kPut || mutation.condition.kind != Condition::Kind::kNone;
}

/// `current` is not looked at if needs_current() is false. A value that is made is made in `scratch`, which `current` must
/// not lie in.
[[nodiscard]] Evaluated evaluate(const Mutation& mutation, const CurrentState& current, uint64_t now_ms,
                                 std::string& scratch);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_EVALUATE_H_
