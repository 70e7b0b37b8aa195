// Two sets over the packet indices of one message.
//
// ReceivedSet: the packets that have arrived. It knows its base, the lowest index that has not arrived.
// Acknowledgements are made from it.
//
//     index   0 1 2 3 4 5 6 7
//     bit     1 1 1 0 1 1 0 0        base = 3, count = 5, words from base: .110000...
//
// WantedSet: the packets to send. The lowest index comes out first, together with those that directly follow it.
//
// Sets of up to 64 packets use one inline word. Larger sets use a vector that keeps its capacity, so an sslot that is
// used again and again allocates once. tests/rpc/protocol compares both sets with a std::set.
#ifndef SKUA_RPC_PROTOCOL_PACKET_SETS_H_
#define SKUA_RPC_PROTOCOL_PACKET_SETS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "rpc/wire/packet_header.h"

namespace skua::rpc {

/// Bits 0..size-1, the storage of both sets.
class PacketBits {
 public:
  void reset(uint32_t size) {
    size_ = size;
    first_ = 0;
    if (size > 64) [[unlikely]] {
      clear_rest();
    }
  }
  /// Adds indices at the end, all clear.
  void extend(uint32_t size) {
    if (size > 64) {
      rest_.resize(size_ > 64 ? (size_ - 1) / 64 : 0);  // removes words of an earlier message
      rest_.resize((size - 1) / 64, 0);
    }
    size_ = size;
  }
  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] uint32_t word_count() const { return (size_ + 63) / 64; }
  [[nodiscard]] uint64_t word(uint32_t index) const { return index == 0 ? first_ : rest_[index - 1]; }
  [[nodiscard]] uint64_t& word(uint32_t index) { return index == 0 ? first_ : rest_[index - 1]; }
  /// The 64 bits from `index` on. Bits beyond the end are clear.
  [[nodiscard]] uint64_t word_at(uint32_t index) const {
    const uint32_t at = index / 64;
    const uint32_t shift = index % 64;
    const uint64_t low = at < word_count() ? word(at) >> shift : 0;
    const uint64_t high = shift != 0 && at + 1 < word_count() ? word(at + 1) << (64 - shift) : 0;
    return low | high;
  }
  [[nodiscard]] bool test(uint32_t index) const { return (word(index / 64) >> (index % 64) & 1) != 0; }
  /// True if the bit was clear.
  bool set(uint32_t index) {
    uint64_t& bits = word(index / 64);
    const uint64_t mask = uint64_t{1} << (index % 64);
    const bool fresh = (bits & mask) == 0;
    bits |= mask;
    return fresh;
  }
  /// Sets [first, end), which is not empty; returns how many were clear.
  uint32_t set_range(uint32_t first, uint32_t end) {
    uint32_t fresh = 0;
    for (uint32_t w = first / 64; w <= (end - 1) / 64; ++w) {
      uint64_t mask = ~uint64_t{0};
      if (w == first / 64) mask <<= first % 64;
      if (w == (end - 1) / 64) mask &= ~uint64_t{0} >> (63 - (end - 1) % 64);
      uint64_t& bits = word(w);
      fresh += static_cast<uint32_t>(std::popcount(mask & ~bits));
      bits |= mask;
    }
    return fresh;
  }
  /// Sets index + i for each bit i of `which`, all below size(); returns how many were clear.
  uint32_t set_bits(uint32_t index, uint64_t which) {
    uint32_t fresh = 0;
    const auto add = [&](uint32_t at, uint64_t mask) {
      if (mask == 0) return;
      uint64_t& bits = word(at);
      fresh += static_cast<uint32_t>(std::popcount(mask & ~bits));
      bits |= mask;
    };
    const uint32_t shift = index % 64;
    add(index / 64, which << shift);
    if (shift != 0) add(index / 64 + 1, which >> (64 - shift));
    return fresh;
  }

 private:
  [[gnu::noinline]] void clear_rest() { rest_.assign((size_ - 1) / 64, 0); }

  uint32_t size_ = 0;
  uint64_t first_ = 0;
  std::vector<uint64_t> rest_;  // may be longer than size_ needs; the rest of it has no meaning
};

class ReceivedSet {
 public:
  void reset(uint32_t size) {
    bits_.reset(size);
    base_ = count_ = 0;
  }
  void extend(uint32_t size) { bits_.extend(size); }

  [[nodiscard]] uint32_t size() const { return bits_.size(); }
  [[nodiscard]] uint32_t count() const { return count_; }
  [[nodiscard]] bool all() const { return count_ == bits_.size(); }
  /// The lowest index that is not in the set; size() if there is none.
  [[nodiscard]] uint32_t base() const { return base_; }
  [[nodiscard]] bool contains(uint32_t index) const { return index < size() && bits_.test(index); }

  /// True if the index is new. `index` < size().
  bool insert(uint32_t index) {
    if (!bits_.set(index)) return false;
    ++count_;
    if (index == base_) advance_base();
    return true;
  }
  /// Inserts [first, end), end <= size(). Returns how many are new.
  uint32_t insert_range(uint32_t first, uint32_t end) {
    if (first >= end) return 0;
    const uint32_t fresh = bits_.set_range(first, end);
    count_ += fresh;
    if (first <= base_ && base_ < end) {
      base_ = end;
      if (count_ != base_) advance_base();  // later indices came before
    }
    return fresh;
  }
  /// How many indices in a row, from `index` on, are missing. Looks at 64 indices at most. `index` < size().
  [[nodiscard]] uint32_t missing_from(uint32_t index) const {
    const auto clear = static_cast<uint32_t>(std::countr_zero(bits_.word_at(index)));
    return std::min(clear, size() - index);
  }

  /// The base and the 256 indices behind it.
  [[nodiscard]] PacketSet snapshot() const {
    PacketSet out;
    out.base = static_cast<uint16_t>(base_);
    // Mostly packets come in order, and no index after the base is in the set.
    if (count_ == base_) return out;
    for (uint32_t w = 0; w < PacketSet::kWordsMax; ++w) {
      out.words[w] = bits_.word_at(base_ + 64 * w);
      if (out.words[w] != 0) out.word_count = static_cast<uint16_t>(w + 1);
    }
    return out;
  }

 private:
  void advance_base() {
    uint32_t word = base_ / 64;
    while (word < bits_.word_count()) {
      const uint64_t holes = ~bits_.word(word) & (~uint64_t{0} << (word == base_ / 64 ? base_ % 64 : 0));
      if (holes != 0) {
        base_ = std::min(word * 64 + static_cast<uint32_t>(std::countr_zero(holes)), size());
        return;
      }
      ++word;
    }
    base_ = size();
  }

  PacketBits bits_;
  uint32_t base_ = 0;
  uint32_t count_ = 0;
};

class WantedSet {
 public:
  void reset(uint32_t size) {
    bits_.reset(size);
    count_ = low_word_ = 0;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] uint32_t count() const { return count_; }

  /// `index` < the size given to reset().
  void insert(uint32_t index) {
    if (!bits_.set(index)) return;
    ++count_;
    low_word_ = std::min(low_word_, index / 64);
  }

  /// Inserts the indices of `set`. All are below the size given to reset().
  void insert(const PacketSet& set) {
    for (uint32_t w = 0; w < set.word_count; ++w) {
      if (set.words[w] == 0) continue;
      count_ += bits_.set_bits(set.base + 64 * w, set.words[w]);
      low_word_ = std::min(low_word_, (set.base + 64 * w) / 64);
    }
  }

  /// Indices in a row.
  struct Run {
    uint32_t first = 0;
    uint32_t count = 0;
    bool operator==(const Run&) const = default;
  };
  /// Removes and returns the lowest index and those that directly follow it: 1..`count_max`, and not beyond the end of
  /// a word. The set must not be empty.
  Run pop_lowest(uint32_t count_max) {
    while (bits_.word(low_word_) == 0) ++low_word_;
    uint64_t& word = bits_.word(low_word_);
    const auto bit = static_cast<uint32_t>(std::countr_zero(word));
    const auto in_row = static_cast<uint32_t>(std::countr_one(word >> bit));
    const uint32_t count = std::min(in_row, count_max);
    word &= ~(~uint64_t{0} >> (64 - count) << bit);
    count_ -= count;
    return {low_word_ * 64 + bit, count};
  }

 private:
  PacketBits bits_;
  uint32_t count_ = 0;
  uint32_t low_word_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_PACKET_SETS_H_
