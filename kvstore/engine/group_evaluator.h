// What a group of mutations does to a shard: conditions, patches and versions, apart from where the data is kept.
//
// Mutations are evaluated in order, each against the state that the earlier ones of the group left. Only what differs
// from the state before the group has to be written: a key's last effect. The earlier ones got their index and their
// answer, and nobody can have read them, because a group becomes visible as a whole.
//
//    group      put a=1   put b=2 if_absent   patch a   delete c      last_index 40
//    effects    a@41      b@42                a@43                    (c was absent: NOT_FOUND, no index)
//    written              b@42                a@43                    last_index 43
#ifndef SKUA_KVSTORE_ENGINE_GROUP_EVALUATOR_H_
#define SKUA_KVSTORE_ENGINE_GROUP_EVALUATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/engine/shard_store.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Reused from group to group so that it stops allocating. Thread: one at a time.
class GroupEvaluator {
 public:
  /// A key's state; version 0: absent.
  struct Current {
    uint64_t version = 0;
    ByteSpan value{};
  };
  /// Fills in the state before the group. `value` must stay valid until the next call. An error fails that mutation
  /// alone.
  using ReadCurrent = absl::FunctionRef<absl::Status(std::string_view key, Current& current)>;

  struct Effect {
    std::string_view key;
    uint64_t version = 0;
    std::optional<ByteSpan> value{};  ///< nullopt: deleted
    bool superseded = false;          ///< a later effect of the group has the same key
  };

  /// Fills `results` (as many as `group`) as if everything will be written, and effects(). The mutations' bytes must
  /// stay valid as long as the effects are used. Returns the index of the last effect, or `last_index` if there is
  /// none.
  uint64_t evaluate(std::span<const Mutation> group, uint64_t last_index, ReadCurrent read,
                    std::span<MutationResult> results);

  /// In the order of their versions; valid until the next evaluate().
  [[nodiscard]] std::span<const Effect> effects() const { return effects_; }

 private:
  MutationResult evaluate_one(const Mutation& mutation, ReadCurrent read);
  MutationResult evaluate_patch(const Mutation& mutation, const Current& current);
  absl::Status find_current(std::string_view key, ReadCurrent read, Current& current);
  MutationResult take_effect(std::string_view key, std::optional<ByteSpan> value);
  std::string& next_scratch();

  std::vector<Effect> effects_;
  absl::flat_hash_map<std::string_view, size_t> last_effect_;  // only looked up, never walked
  std::vector<std::unique_ptr<std::string>> scratch_;          // patched rows of this group
  size_t scratch_used_ = 0;
  uint64_t index_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_GROUP_EVALUATOR_H_
