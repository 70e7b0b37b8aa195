#include "kvstore/gateway/memcached_line.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "absl/strings/ascii.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_numbers.h"
#include "kvstore/gateway/memcached_parser.h"

namespace skua::kv::gateway {
namespace {

/// As in memcached: what is beyond is no length at all.
constexpr int64_t kLengthMax = std::numeric_limits<int32_t>::max() - 2;

bool is_length(std::optional<int64_t> bytes) {
  return bytes.has_value() && *bytes >= 0 && *bytes <= kLengthMax;
}

/// A line whose length is known. What is refused now is followed by a block that nobody wants.
BlockLine with_block(std::string_view key, int64_t bytes, bool is_silent) {
  BlockLine out{.block_bytes = static_cast<size_t>(bytes), .is_silent = is_silent};
  if (bytes > kMemcachedBlockBytesMax) {
    out.error = memcached_errors::kTooLarge;
  } else if (!is_memcached_key(key)) {
    out.error = memcached_errors::kBadFormat;
  }
  return out;
}

/// ms KEY LENGTH FLAGS
BlockLine read_meta_set(const std::vector<std::string_view>& words) {
  if (words.size() < 2) return {.error = memcached_errors::kUnknown};
  if (words.size() < 3 || words[1].size() > kMemcachedKeyBytesMax) return {.error = memcached_errors::kBadFormat};
  if (words.size() > kMemcachedMetaWordsMax) return {.error = memcached_errors::kTooManySetFlags};
  const std::optional<int64_t> bytes = parse_memcached_i64(words[2]);
  if (!is_length(bytes)) return {.error = memcached_errors::kBadFormat};
  return with_block(words[1], *bytes, false);
}

}  // namespace

std::vector<std::string_view> split_memcached_line(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

bool announces_block(std::string_view command) {
  return command == "set" || command == "add" || command == "replace" || command == "append" || command == "prepend" ||
         command == "cas" || command == "ms";
}

BlockLine read_block_line(const std::vector<std::string_view>& words) {
  if (words[0] == "ms") return read_meta_set(words);
  const bool has_version = words[0] == "cas";
  const size_t least = has_version ? 6 : 5;
  if (words.size() < least || words.size() > least + 1) return {.error = memcached_errors::kUnknown};
  const bool is_silent = words.back() == "noreply";
  const BlockLine bad{.error = memcached_errors::kBadFormat, .is_silent = is_silent};
  if (words[1].size() > kMemcachedKeyBytesMax) return bad;
  const std::optional<int64_t> bytes = parse_memcached_i64(words[4]);
  const bool is_good = parse_memcached_u32(words[2]).has_value() && parse_memcached_i64(words[3]).has_value() &&
                       is_length(bytes) && (!has_version || parse_memcached_u64(words[5]).has_value());
  return is_good ? with_block(words[1], *bytes, is_silent) : bad;
}

bool is_memcached_key(std::string_view key) {
  return !key.empty() && key.size() <= kMemcachedKeyBytesMax && std::none_of(key.begin(), key.end(), [](char byte) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(byte));
  });
}

bool has_encoded_key(const std::vector<std::string_view>& words) {
  constexpr std::string_view kMetaCommands = "gsdae";
  const bool is_meta = words.size() > 2 && words[0].size() == 2 && words[0][0] == 'm' &&
                       kMetaCommands.find(words[0][1]) != std::string_view::npos;
  if (!is_meta) return false;
  const auto flags = std::span(words).subspan(words[0] == "ms" ? 3 : 2);
  return std::ranges::any_of(flags, [](std::string_view word) { return word[0] == 'b'; });
}

}  // namespace skua::kv::gateway
