#include "app/value_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace skua::app {

namespace {

struct Unit {
  std::string_view name;
  int64_t factor;
};

// Largest first, as the formatters want them.
constexpr Unit kDurationUnits[] = {{"h", 3600 * kSecond}, {"m", 60 * kSecond},  {"s", kSecond},
                                   {"ms", kMillisecond},  {"us", kMicrosecond}, {"ns", 1}};
constexpr Unit kSizeUnits[] = {{"TiB", int64_t{1} << 40},
                               {"GiB", int64_t{1} << 30},
                               {"MiB", int64_t{1} << 20},
                               {"KiB", int64_t{1} << 10},
                               {"B", 1}};

absl::Status expected(std::string_view what, std::string_view text) {
  return absl::InvalidArgumentError(text.empty()
                                        ? absl::StrCat("must be ", std::string(what), ", not empty")
                                        : absl::StrCat("must be ", std::string(what), ", not ", std::string(text)));
}

// from_chars takes the whole of `text` or it is no number.
template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Where the number ends and the unit begins.
size_t unit_start(std::string_view text) {
  size_t at = text.size();
  while (at > 0 && absl::ascii_isalpha(static_cast<unsigned char>(text[at - 1]))) --at;
  return at;
}

}  // namespace

absl::StatusOr<bool> parse_bool(std::string_view text) {
  for (std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (std::string_view no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  return expected("true or false", text);
}

absl::StatusOr<int64_t> parse_int(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[i - 1])) &&
                         absl::ascii_isdigit(static_cast<unsigned char>(text[i + 1]));
    if (text[i] == '_' && between) continue;
    digits += text[i];
  }
  int64_t value = 0;
  std::string_view unsigned_part = digits;
  if (!unsigned_part.empty() && unsigned_part[0] == '+') unsigned_part.remove_prefix(1);
  if (!parse_number(unsigned_part, value)) return expected("a whole number", text);
  return value;
}

absl::StatusOr<double> parse_double(std::string_view text) {
  double value = 0;
  if (!parse_number(text, value) || !std::isfinite(value)) return expected("a number", text);
  return value;
}

absl::StatusOr<DurationNs> parse_duration(std::string_view text) {
  constexpr std::string_view kWhat = "a duration such as 250us, 500ms, 2s or 10m";
  if (text == "0") return DurationNs{0};
  const size_t start = unit_start(text);
  double number = 0;
  if (!parse_number(text.substr(0, start), number) || number < 0) return expected(kWhat, text);
  for (const Unit& unit : kDurationUnits) {
    if (text.substr(start) != unit.name) continue;
    const double duration_ns = std::round(number * static_cast<double>(unit.factor));
    if (duration_ns >= static_cast<double>(std::numeric_limits<int64_t>::max())) {
      return expected("a duration below 292 years", text);
    }
    return static_cast<DurationNs>(duration_ns);
  }
  return expected(kWhat, text);
}

absl::StatusOr<int64_t> parse_size(std::string_view text) {
  constexpr std::string_view kWhat = "a size in bytes such as 4096, 64KiB, 16MiB or 2GiB";
  const size_t start = unit_start(text);
  absl::StatusOr<int64_t> number = parse_int(text.substr(0, start));
  if (!number.ok() || *number < 0) return expected(kWhat, text);
  if (start == text.size()) return *number;
  for (const Unit& unit : kSizeUnits) {
    if (text.substr(start) != unit.name) continue;
    if (*number > std::numeric_limits<int64_t>::max() / unit.factor) {
      return expected("a size below 8EiB", text);
    }
    return *number * unit.factor;
  }
  return expected(kWhat, text);
}

std::string format_duration(DurationNs duration_ns) {
  if (duration_ns == 0) return "0";
  for (const Unit& unit : kDurationUnits) {
    if (duration_ns % unit.factor == 0) {
      return absl::StrCat(duration_ns / unit.factor, std::string(unit.name));
    }
  }
  return absl::StrCat(duration_ns, "ns");
}

std::string format_size(int64_t size_bytes) {
  if (size_bytes == 0) return "0B";
  for (const Unit& unit : kSizeUnits) {
    if (size_bytes % unit.factor == 0) {
      return absl::StrCat(size_bytes / unit.factor, std::string(unit.name));
    }
  }
  return absl::StrCat(size_bytes, "B");
}

std::string format_double(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, error == std::errc() ? end : text);
}

}  // namespace skua::app
