#include "kvstore/gateway/redis_numbers.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace skua::kv::gateway {
namespace {

/// Room for the text of a float, as in Redis: the largest long double has 4,933 digits.
constexpr size_t kFloatTextRoomBytes = 5 * 1024;
/// The longest text that is taken for a float. What format_float() writes can be read again.
constexpr size_t kFloatTextBytesMax = kFloatTextRoomBytes - 1;

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  // Most numbers are counts and lengths of words.
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') return text[0] - '0';
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const std::string_view digits = text.front() == '-' ? text.substr(1) : text;
  const bool is_plain = digits.front() != '0' || text == "0";
  return is_plain ? std::optional(value) : std::nullopt;
}

std::optional<long double> parse_float(std::string_view text) {
  if (text.empty() || text.size() > kFloatTextBytesMax || std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    return std::nullopt;
  }
  const std::string copy(text);  // ends with a zero byte
  char* end = nullptr;
  errno = 0;
  const long double value = std::strtold(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || std::isnan(value)) return std::nullopt;
  if (errno == ERANGE && (std::isinf(value) || value == 0)) return std::nullopt;
  return value;
}

std::string format_float(long double value) {
  std::array<char, kFloatTextRoomBytes> text;
  const int size = std::snprintf(text.data(), text.size(), "%.17Lf", value);
  std::string out(text.data(), static_cast<size_t>(size));
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

}  // namespace skua::kv::gateway
