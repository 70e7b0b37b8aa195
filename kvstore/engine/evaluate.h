// What a mutation does to a key, given the key's state: conditions, patches and their answers, apart from where data is kept.
#ifndef SKUA_KVSTORE_ENGINE_EVALUATE_H_
#define SKUA_KVSTORE_ENGINE_EVALUATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kvstore/engine/mutation.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A key's state; version 0: absent.
struct CurrentState {
  uint64_t version = 0;
  ByteSpan value{};
};

struct Evaluated {
  /// kOk: it takes effect, and its version is the index that it gets. Else the answer.
  MutationResult result;
  /// kOk: what the key has then; nullopt: nothing. A view into the mutation or `scratch`.
  std::optional<ByteSpan> value{};
};

/// True if the key's state makes a difference: all but an unconditional PUT.
[[nodiscard]] bool needs_current(const Mutation& mutation);

/// `current` is not looked at if needs_current() is false. A patched row is made in `scratch`.
[[nodiscard]] Evaluated evaluate(const Mutation& mutation, const CurrentState& current, std::string& scratch);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_EVALUATE_H_
