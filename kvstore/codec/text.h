// Formats numbers for messages to people, and checks them against limits.
#ifndef SKUA_KVSTORE_CODEC_TEXT_H_
#define SKUA_KVSTORE_CODEC_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace skua::kv {

/// 16777216 as "16,777,216".
[[nodiscard]] std::string with_commas(uint64_t number);

/// "1 shard", "6 shards", "1,024 shards". Only for nouns that form the plural with an s.
[[nodiscard]] std::string counted(uint64_t number, std::string_view noun);

/// INVALID_ARGUMENT with a text such as `the key has 1,025 bytes; at most 1,024 are allowed`, or, for a size below
/// `least`, `a BATCH has 0 operations; 1 to 1,024 are allowed`.
[[nodiscard]] absl::Status beyond_limit(const char* whose, std::string_view noun, size_t size, size_t limit,
                                        size_t least = 0);

/// OK if `size` is from `least` to `limit`; else beyond_limit().
[[nodiscard]] inline absl::Status check_limit(const char* whose, std::string_view noun, size_t size, size_t limit,
                                              size_t least = 0) {
  return size >= least && size <= limit ? absl::OkStatus() : beyond_limit(whose, noun, size, limit, least);
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_TEXT_H_
