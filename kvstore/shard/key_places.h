// KeyPlaces: where a key is found, by the key's hash. The keys themselves lie elsewhere: whoever asks has the hash
// already, and says of a place whether it is the key's.
//
//    hash, mixed    0x2.. 0x3.. 0x3..        0xb..       the upper bits are the slot where a search begins
//    slots        [ . | .  | A  | B  | C  | . | . | D | . ]   open addressing; at most half of the slots are taken
//
// A removed place leaves no mark: the places behind it move up, so a table that is filled and emptied all the time
// stays as fast as it was. Memory is kept, so nothing is allocated in steady state.
//
// Clients must not know the hash (KeyHasher): keys with one hash make one long search.
#ifndef SKUA_KVSTORE_SHARD_KEY_PLACES_H_
#define SKUA_KVSTORE_SHARD_KEY_PLACES_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {

/// `Place` is small and trivially copyable. Thread: one at a time.
template <typename Place>
class KeyPlaces {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] size_t size() const { return size_; }

  /// Removes all places. The next `expected` ones need no memory that is not there then.
  void reset(size_t expected = 0) {
    const size_t slots = std::bit_ceil(std::max(2 * expected, kSlotsMin));
    if (slots_.size() < slots) slots_.resize(slots);
    use(slots);
    std::fill_n(slots_.begin(), slots, Slot{});
    size_ = 0;
  }

  /// The place with this hash for which `is_it(place)` is true; null: there is none. Valid until the next change.
  template <typename IsIt>
  [[nodiscard]] const Place* find(uint64_t hash, IsIt is_it) const {
    if (empty()) return nullptr;
    const Slot& slot = slots_[search(word_of(hash), is_it)];
    return slot.word == 0 ? nullptr : &slot.place;
  }

  /// Adds `place` if there is none with this hash for which `is_it(place)` is true. Returns the one that is there then,
  /// which is valid until the next change, and whether it is new.
  template <typename IsIt>
  std::pair<Place*, bool> try_add(uint64_t hash, const Place& place, IsIt is_it) {
    if (2 * (size_ + 1) > mask_ + 1) grow();
    const uint64_t word = word_of(hash);
    Slot& slot = slots_[search(word, is_it)];
    if (slot.word != 0) return {&slot.place, false};
    slot = {word, place};
    ++size_;
    return {&slot.place, true};
  }

  /// Removes the place with this hash for which `is_it(place)` is true. False: there is none.
  template <typename IsIt>
  bool remove(uint64_t hash, IsIt is_it) {
    if (empty()) return false;
    const size_t at = search(word_of(hash), is_it);
    if (slots_[at].word == 0) return false;
    close_gap(at);
    --size_;
    return true;
  }

 private:
  struct Slot {
    uint64_t word = 0;  // the mixed hash; 0: the slot is empty
    Place place{};
  };
  static constexpr size_t kSlotsMin = 16;
  static constexpr int kHashBits = 64;

  /// The keys of one shard may have the same upper bits in their hashes.
  [[nodiscard]] static uint64_t word_of(uint64_t hash) { return mix64(hash) | 1; }

  [[nodiscard]] size_t used_slots() const { return mask_ == 0 ? 0 : mask_ + 1; }
  [[nodiscard]] size_t home(uint64_t word) const { return word >> shift_; }
  void use(size_t slots) {
    mask_ = slots - 1;
    shift_ = kHashBits - std::countr_zero(slots);
  }

  /// Where the place is, or the empty slot where it would be. There must be slots.
  template <typename IsIt>
  [[nodiscard]] size_t search(uint64_t word, IsIt is_it) const {
    size_t at = home(word);
    while (slots_[at].word != 0 && (slots_[at].word != word || !is_it(slots_[at].place))) at = (at + 1) & mask_;
    return at;
  }

  /// Empties a slot: the places behind it that would not be found any more move up.
  void close_gap(size_t gap) {
    for (size_t at = (gap + 1) & mask_; slots_[at].word != 0; at = (at + 1) & mask_) {
      const size_t way = (at - home(slots_[at].word)) & mask_;  // from where its search begins
      if (way < ((at - gap) & mask_)) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = Slot{};
  }

  void grow() {
    const size_t slots = std::max(2 * used_slots(), kSlotsMin);
    std::vector<Slot> old(slots);
    old.swap(slots_);
    old.resize(used_slots());
    use(slots);
    for (const Slot& slot : old) {
      if (slot.word == 0) continue;
      size_t at = home(slot.word);
      while (slots_[at].word != 0) at = (at + 1) & mask_;
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;  // perhaps more than are used
  size_t mask_ = 0;          // of the used slots, whose number is a power of two; 0: none is used
  int shift_ = 0;            // of the mixed hash, to get the slot where its search begins
  size_t size_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_KEY_PLACES_H_
