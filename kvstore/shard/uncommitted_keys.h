// The keys that entries of a replicated shard touch which are not in memory yet: whoever answers reads without being the
// primary must not answer for these, because the primary may have acknowledged such an entry already.
//
//    entries   ... 41 | 42 put a, 43 put b, 44 put a       a: 44, b: 43     41 is committed, and in memory
//                       in memory: 43                      a: 44
//
// Kept by hash: a key may be taken for another one, and is then not answered either. One that was not forgotten counts for
// nothing once its entry is in memory.
#ifndef SKUA_KVSTORE_SHARD_UNCOMMITTED_KEYS_H_
#define SKUA_KVSTORE_SHARD_UNCOMMITTED_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "kvstore/codec/effect.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Thread: one at a time.
class UncommittedKeys {
 public:
  /// False: nothing is kept, and touches() means nothing.
  [[nodiscard]] bool active() const { return active_; }
  /// Empty in either case.
  void set_active(bool active) {
    active_ = active;
    last_.clear();
  }

  /// Entries' payloads, without the entries' heads, in the order of their indices.
  void add(uint64_t index, ByteSpan payload) {
    EffectReader reader(payload);
    while (const auto effect = reader.next()) last_[absl::HashOf(effect->key)] = index;
  }
  /// The entry is in memory.
  void forget(uint64_t index, ByteSpan payload) {
    EffectReader reader(payload);
    while (const auto effect = reader.next()) {
      const auto found = last_.find(absl::HashOf(effect->key));
      if (found != last_.end() && found->second == index) last_.erase(found);
    }
  }

  /// Whether an entry behind `index` touches the key.
  [[nodiscard]] bool touches(std::string_view key, uint64_t index) const {
    const auto found = last_.find(absl::HashOf(key));
    return found != last_.end() && found->second > index;
  }

 private:
  bool active_ = false;
  absl::flat_hash_map<size_t, uint64_t> last_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_UNCOMMITTED_KEYS_H_
