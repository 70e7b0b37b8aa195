// CommandArguments: the words of one command, in one piece of memory.
#ifndef SKUA_KVSTORE_GATEWAY_COMMAND_ARGUMENTS_H_
#define SKUA_KVSTORE_GATEWAY_COMMAND_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"

namespace skua::kv::gateway {

/// A value. Views that it gives are valid until it is changed or moved.
class CommandArguments {
 public:
  [[nodiscard]] size_t size() const { return words_.size(); }
  [[nodiscard]] bool empty() const { return words_.empty(); }
  /// The first is the command's name.
  [[nodiscard]] std::string_view operator[](size_t index) const {
    const Word word = words_[index];
    return {bytes_.data() + word.begin, word.end - word.begin};
  }
  /// Of the arguments, and of what else take() was given.
  [[nodiscard]] size_t byte_count() const { return bytes_.size(); }

  /// Adds bytes to the argument that end_argument() ends.
  void append(std::string_view bytes) { bytes_.append(bytes); }
  void push_back(char byte) { bytes_.push_back(byte); }
  void end_argument() { add_word(words_.empty() ? 0 : words_.back().end, bytes_.size()); }

  /// A command that is there as a whole, with other bytes between its arguments, needs one copy for all of them. First
  /// name the arguments of an empty object by their places in `bytes`, which is less than 4 GiB; then take().
  void name_argument(size_t begin, size_t end) { add_word(begin, end); }
  void take(std::string_view bytes) { bytes_ = bytes; }

  /// Adds the arguments of `other`, but for its name. Nothing is behind the last argument of either.
  void append_without_name(const CommandArguments& other) {
    if (other.size() < 2) return;
    const size_t begin = other.words_[1].begin;
    const size_t shift = bytes_.size() - begin;  // may wrap around
    bytes_.append(other.bytes_, begin);
    for (size_t i = 1; i < other.words_.size(); ++i) {
      add_word(other.words_[i].begin + shift, other.words_[i].end + shift);
    }
  }
  /// Keeps the memory, unless it is large.
  void clear() {
    bytes_.clear();
    if (bytes_.capacity() > kKeptBytesMax) std::string().swap(bytes_);
    if (words_.capacity() * sizeof(Word) > kKeptBytesMax) {
      words_.clear();
    } else {
      words_.resize(0);  // clear() would free the memory
    }
  }

  /// The same arguments.
  friend bool operator==(const CommandArguments& a, const CommandArguments& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  struct Word {
    uint32_t begin;  // in bytes_
    uint32_t end;
  };
  static constexpr size_t kKeptBytesMax = 4096;

  void add_word(size_t begin, size_t end) {
    words_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  }

  std::string bytes_;
  absl::InlinedVector<Word, 4> words_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_COMMAND_ARGUMENTS_H_
