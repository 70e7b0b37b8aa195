#include "kvstore/codec/entry_check.h"

#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"

namespace skua::kv {

absl::Status check_entry(ByteSpan payload, absl::flat_hash_set<std::string_view>& keys,
                         absl::FunctionRef<absl::Status(const Effect&)> visit) {
  EffectReader reader(payload);
  size_t effects = 0;
  std::string_view first_key;
  keys.clear();
  while (const auto effect = reader.next()) {
    ++effects;
    if (effects == 1) first_key = effect->key;
    if (effects == 2) keys.insert(first_key);
    // The applier's queue might have no room for more effects, and the memory tier cannot undo two writes of one key.
    if (effects > kBatchOpsMax || (effects > 1 && !keys.insert(effect->key).second)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the entry has more than kBatchOpsMax of ", kBatchOpsMax, " effects, or one key twice"));
    }
    if (absl::Status visited = visit(*effect); !visited.ok()) return visited;
  }
  if (!reader.complete() || reader.entry() || (effects == 0) != reader.barrier().has_value()) {
    return absl::InvalidArgumentError("the entry's payload is none of this build's");
  }
  return absl::OkStatus();
}

}  // namespace skua::kv
