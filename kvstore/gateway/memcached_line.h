// A line of memcached's text protocol: its words, and what it says about a block that follows (BlockLine). Pure.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_LINE_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_LINE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skua::kv::gateway {

/// Parted by blanks; the views are of `line`.
[[nodiscard]] std::vector<std::string_view> split_memcached_line(std::string_view line);

/// set, add, replace, append, prepend, cas and ms.
[[nodiscard]] bool announces_block(std::string_view command);

/// What a line of such a command says.
struct BlockLine {
  /// What is wrong; empty: the line is as it should be.
  std::string_view error = {};
  /// Bytes of the block, without its end. Nothing: no block follows.
  std::optional<size_t> block_bytes = {};
  /// The client wants no reply, not even an error.
  bool is_silent = false;
};
[[nodiscard]] BlockLine read_block_line(const std::vector<std::string_view>& words);

/// At most 250 bytes, none of them a control character.
[[nodiscard]] bool is_memcached_key(std::string_view key);

/// The line is one of a meta command whose key is encoded in base64 (flag `b`).
[[nodiscard]] bool has_encoded_key(const std::vector<std::string_view>& words);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_LINE_H_
