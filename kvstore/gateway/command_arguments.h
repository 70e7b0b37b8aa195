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
  [[nodiscard]] size_t size() const { return ends_.size(); }
  [[nodiscard]] bool empty() const { return ends_.empty(); }
  /// The first is the command's name.
  [[nodiscard]] std::string_view operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }
  [[nodiscard]] size_t byte_count() const { return bytes_.size(); }

  /// Adds bytes to the argument that end_argument() ends.
  void append(std::string_view bytes) { bytes_.append(bytes); }
  void push_back(char byte) { bytes_.push_back(byte); }
  void end_argument() { ends_.push_back(static_cast<uint32_t>(bytes_.size())); }
  /// Keeps the memory, unless it is large.
  void clear() {
    bytes_.clear();
    ends_.clear();
    if (bytes_.capacity() > kKeptBytesMax) std::string().swap(bytes_);
    if (ends_.capacity() * sizeof(uint32_t) > kKeptBytesMax) ends_.shrink_to_fit();
  }

  friend bool operator==(const CommandArguments&, const CommandArguments&) = default;

 private:
  static constexpr size_t kKeptBytesMax = 4096;

  std::string bytes_;
  absl::InlinedVector<uint32_t, 4> ends_;  // of each argument, in bytes_
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_COMMAND_ARGUMENTS_H_
