// MetaFlags: the flags of meta commands (mg ms md ma me): words of a letter and, for some, a value. Pure.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_META_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_META_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kvstore/gateway/command_arguments.h"

namespace skua::kv::gateway {

/// Views are of the command's words.
struct MetaFlags {
  /// In the order of the command, which is that of the reply.
  std::vector<std::string_view> words = {};
  bool wants_value = false;                   // v
  bool wants_ttl = false;                     // t
  bool wants_version = false;                 // c
  bool is_quiet = false;                      // q
  bool is_key_encoded = false;                // b
  std::optional<int64_t> expiry = {};         // T, as of memcached's exptime
  std::optional<int64_t> expiry_of_new = {};  // N: makes the key if it is absent
  uint32_t tag = 0;                           // F
  std::optional<uint64_t> version = {};       // C
  char mode = 0;                              // M
  uint64_t delta = 1;                         // D
  uint64_t initial = 0;                       // J
};

/// Reads the words from `first` up to, not with, `end`. The result is what is wrong with them; empty: nothing.
[[nodiscard]] std::string_view read_meta_flags(const CommandArguments& words, size_t first, size_t end,
                                               MetaFlags& flags);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_META_H_
