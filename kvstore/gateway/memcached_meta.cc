#include "kvstore/gateway/memcached_meta.h"

#include <bitset>
#include <optional>
#include <type_traits>

#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_numbers.h"

namespace skua::kv::gateway {
namespace {

constexpr size_t kOpaqueBytesMax = 32;
/// Flags of memcached that need what the store does not keep of a record: h, l, I and R are refused like unknown ones.
constexpr std::string_view kKnown = "bNTOPLkstcfvuqFCMJD";

/// `out`: a T or an optional of one.
template <typename T, typename Out>
std::string_view take(std::optional<T> value, Out& out, std::string_view error) {
  if (!value.has_value()) return error;
  if constexpr (std::is_same_v<Out, T>) {
    out = *value;
  } else {
    static_assert(std::is_same_v<Out, std::optional<T>>);
    out = value;
  }
  return {};
}

std::string_view read_flag(std::string_view word, MetaFlags& flags) {
  const std::string_view value = word.substr(1);
  switch (word[0]) {
    case 'b': flags.is_key_encoded = true; break;
    case 'v': flags.wants_value = true; break;
    case 't': flags.wants_ttl = true; break;
    case 'c': flags.wants_version = true; break;
    case 'q': flags.is_quiet = true; break;
    case 'T': return take(parse_memcached_i64(value), flags.expiry, memcached_errors::kBadFlagValue);
    case 'N': return take(parse_memcached_i64(value), flags.expiry_of_new, memcached_errors::kBadFlagValue);
    case 'C': return take(parse_memcached_u64(value), flags.version, memcached_errors::kBadFlagValue);
    case 'F': return take(parse_memcached_u32(value), flags.tag, memcached_errors::kBadFormat);
    case 'D': return take(parse_memcached_u64(value), flags.delta, memcached_errors::kBadFormat);
    case 'J': return take(parse_memcached_u64(value), flags.initial, memcached_errors::kBadFormat);
    case 'M':
      return take(value.size() == 1 ? std::optional(value[0]) : std::nullopt, flags.mode,
                  memcached_errors::kBadModeLength);
    case 'O': return word.size() > kOpaqueBytesMax ? memcached_errors::kLongOpaque : std::string_view();
    default: break;
  }
  return {};
}

}  // namespace

std::string_view read_meta_flags(const CommandArguments& words, size_t first, size_t end, MetaFlags& flags) {
  std::bitset<256> seen;
  std::string_view error;
  for (size_t i = first; i < end; ++i) {
    const std::string_view word = words[i];
    const auto letter = static_cast<unsigned char>(word[0]);
    if (seen.test(letter)) return memcached_errors::kDuplicateFlag;
    seen.set(letter);
    if (kKnown.find(word[0]) == std::string_view::npos) return memcached_errors::kInvalidFlag;
    if (const std::string_view wrong = read_flag(word, flags); !wrong.empty()) error = wrong;
    flags.words.push_back(word);
  }
  return error;
}

}  // namespace skua::kv::gateway
