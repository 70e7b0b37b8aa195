// ReplayWindow: which numbers have been seen, of those that are not too old (RFC 6479).
//
//                 seen or not: a bit each                newest
//   ... too old |-----------------------------------------|  not seen
//               newest - kNumbers                          newest + 1
#ifndef SKUA_RPC_TRANSPORT_SEALED_REPLAY_WINDOW_H_
#define SKUA_RPC_TRANSPORT_SEALED_REPLAY_WINDOW_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace skua::rpc {

class ReplayWindow {
 public:
  /// Numbers that lie further behind the newest one are too old. Links with several lanes reorder.
  static constexpr uint64_t kNumbers = 4096;

  /// True: the number has not been seen, and is not too old.
  [[nodiscard]] bool is_new(uint64_t number) const {
    if (number >= end_) return true;
    if (end_ - number > kNumbers) return false;
    return (words_[word_of(number)] >> (number % 64) & 1) == 0;
  }
  /// Marks a number that is_new(). Only a number whose frame was opened may be marked: otherwise a forger could close
  /// the window to the real ones.
  void mark(uint64_t number) {
    if (number >= end_) {
      // The words between the newest number and this one begin anew.
      const uint64_t fresh = std::min(number / 64 - (end_ == 0 ? 0 : (end_ - 1) / 64), uint64_t{kWords});
      for (uint64_t i = 0; i < fresh; ++i) words_[(number / 64 - i) % kWords] = 0;
      end_ = number + 1;
    }
    words_[word_of(number)] |= uint64_t{1} << (number % 64);
  }
  /// One more than the newest number; 0: nothing was seen.
  [[nodiscard]] uint64_t end() const { return end_; }

 private:
  /// One word more than the numbers need: the newest word is seldom full.
  static constexpr uint64_t kWords = kNumbers / 64 + 1;
  [[nodiscard]] static uint64_t word_of(uint64_t number) { return number / 64 % kWords; }

  uint64_t end_ = 0;
  std::array<uint64_t, kWords> words_{};
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_REPLAY_WINDOW_H_
