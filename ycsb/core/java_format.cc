#include "ycsb/core/java_format.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

constexpr size_t kDigitsMax = 400;  // the longest double in plain digits has 309 before the point

}  // namespace

std::string java_double(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::array<char, kDigitsMax> digits;
  const char* const end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed).ptr;
  std::string text(digits.data(), static_cast<size_t>(end - digits.data()));
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string java_two_decimals(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "\u221e" : "-\u221e";
  std::array<char, kDigitsMax> digits;
  const int size = std::snprintf(digits.data(), digits.size(), "%.2f", value);
  std::string text(digits.data(), static_cast<size_t>(size));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string java_ordinal(double percentile) {
  const double whole = std::trunc(percentile);
  if (whole != percentile) return java_double(percentile);
  const auto number = static_cast<int>(whole);
  const bool teen = number % 100 >= 11 && number % 100 <= 13;
  constexpr std::array<std::string_view, 4> kSuffixes = {"th", "st", "nd", "rd"};
  const auto digit = static_cast<size_t>(number % 10);
  return concat(number, teen || digit > 3 ? "th" : kSuffixes.at(digit));
}

std::string java_remaining_time(double seconds_left) {
  constexpr double kLongMax = 9.2e18;
  uint64_t seconds = 0;
  if (seconds_left >= kLongMax) {
    seconds = std::numeric_limits<int64_t>::max();
  } else if (seconds_left > 0) {
    seconds = static_cast<uint64_t>(seconds_left);
  }
  const auto count = [](uint64_t n, std::string_view unit) { return concat(n, " ", unit, n == 1 ? " " : "s "); };
  constexpr uint64_t kDay = 86'400;
  const uint64_t days = seconds / kDay;
  const uint64_t hours = seconds % kDay / 3600;
  const uint64_t minutes = seconds % 3600 / 60;
  std::string text;
  if (days > 0) text += count(days, "day");
  if (hours > 0) text += count(hours, "hour");
  if (days < 1 && minutes > 0) text += count(minutes, "minute");
  if (text.empty()) text = concat(seconds, seconds < 10 ? " second " : " seconds ");
  return text;
}

}  // namespace skua::ycsb
