#include "kvstore/gateway/memcached_numbers.h"

#include <charconv>
#include <limits>
#include <system_error>

#include "absl/strings/ascii.h"

namespace skua::kv::gateway {
namespace {

bool is_space(char byte) {
  return absl::ascii_isspace(static_cast<unsigned char>(byte));
}

struct Magnitude {
  bool is_negative = false;
  uint64_t value = 0;
};

std::optional<Magnitude> parse_magnitude(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  Magnitude out;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    out.is_negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [at, error] = std::from_chars(begin, end, out.value);
  if (error != std::errc() || (at != end && !is_space(*at))) return std::nullopt;
  return out;
}

}  // namespace

std::optional<uint64_t> parse_memcached_u64(std::string_view text) {
  const std::optional<Magnitude> found = parse_magnitude(text);
  if (!found.has_value() || (found->is_negative && found->value > 0)) return std::nullopt;
  return found->value;
}

std::optional<uint32_t> parse_memcached_u32(std::string_view text) {
  const std::optional<uint64_t> value = parse_memcached_u64(text);
  if (!value.has_value() || *value > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

std::optional<int64_t> parse_memcached_i64(std::string_view text) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const std::optional<Magnitude> found = parse_magnitude(text);
  if (!found.has_value() || found->value > kMax) return std::nullopt;
  const auto value = static_cast<int64_t>(found->value);
  return found->is_negative ? -value : value;
}

}  // namespace skua::kv::gateway
