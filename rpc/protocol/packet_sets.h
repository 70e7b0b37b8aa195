// Two sets over the packet indices of one message.
//
// ReceivedSet: what has arrived. Knows its base, the lowest index that has not; acknowledgements
// are cut from it.
//
//     index   0 1 2 3 4 5 6 7
//     bit     1 1 1 0 1 1 0 0        base = 3, count = 5, words from base: .110000...
//
// WantedSet: what is to be sent; the lowest comes out first.
//
// Messages of up to 64 packets live in one inline word; longer ones in a vector that keeps its
// capacity, so a slot that is used again and again allocates once. tests/rpc/protocol holds both
// against a std::set.
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
      rest_.resize(size_ > 64 ? (size_ - 1) / 64 : 0);  // what lies behind is an earlier message's
      rest_.resize((size - 1) / 64, 0);
    }
    size_ = size;
  }
  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] uint32_t word_count() const { return (size_ + 63) / 64; }
  [[nodiscard]] uint64_t word(uint32_t index) const { return index == 0 ? first_ : rest_[index - 1]; }
  [[nodiscard]] uint64_t& word(uint32_t index) { return index == 0 ? first_ : rest_[index - 1]; }
  /// The 64 bits from `index` on; clear behind the end.
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

 private:
  [[gnu::noinline]] void clear_rest() { rest_.assign((size_ - 1) / 64, 0); }

  uint32_t size_ = 0;
  uint64_t first_ = 0;
  std::vector<uint64_t> rest_;  // meaningful as far as size_ reaches
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

  /// The base and the 256 indices behind it.
  [[nodiscard]] PacketSet snapshot() const {
    PacketSet out;
    out.base = static_cast<uint16_t>(base_);
    // In order there is nothing behind the base: the usual case.
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

  /// Removes and returns the lowest index; not to be called when empty.
  uint32_t pop_lowest() {
    while (bits_.word(low_word_) == 0) ++low_word_;
    uint64_t& word = bits_.word(low_word_);
    const auto bit = static_cast<uint32_t>(std::countr_zero(word));
    word &= word - 1;
    --count_;
    return low_word_ * 64 + bit;
  }

 private:
  PacketBits bits_;
  uint32_t count_ = 0;
  uint32_t low_word_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_PACKET_SETS_H_
