// The keys that are touched by entries of a replicated shard which are not in memory yet. A replica that answers reads
// without being the primary must not answer for these keys, because the primary may have acknowledged such an entry
// already.
//
//    entries   ... 41 | 42 put a, 43 put b, 44 put a       a: 44, b: 43     41 is committed, and in memory
//                       in memory: 43                      a: 44
//
// Keys are kept by their hash. Two keys with the same hash count as one, so a key may be refused without need. A key
// that was not forgotten has no effect once its entry is in memory, because touches() compares the entry's index.
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
  /// False: no keys are kept, and touches() has no meaning.
  [[nodiscard]] bool active() const { return active_; }
  /// Starts or stops to keep keys. In both cases the set is empty afterwards.
  void set_active(bool active) {
    active_ = active;
    last_.clear();
  }

  /// Adds the keys of an entry. `payload` is the entry's, without the entry's head. Entries come in the order of their
  /// indices.
  void add(uint64_t index, ByteSpan payload) {
    EffectReader reader(payload);
    while (const auto effect = reader.next()) last_[absl::HashOf(effect->key)] = index;
  }
  /// The entry is in memory now: removes the keys that no later entry touches.
  void forget(uint64_t index, ByteSpan payload) {
    EffectReader reader(payload);
    while (const auto effect = reader.next()) {
      const auto found = last_.find(absl::HashOf(effect->key));
      if (found != last_.end() && found->second == index) last_.erase(found);
    }
  }

  /// True: an entry behind `index` touches the key, or a key with the same hash.
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
