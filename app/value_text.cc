#include "app/value_text.h"

#include <charconv>
#include <cmath>
#include <span>
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

// Units that people write for these.
struct Spelling {
  std::string_view written;
  std::string_view unit;
};
constexpr Spelling kDurationSpellings[] = {{"msec", "ms"}, {"millis", "ms"}, {"usec", "us"},  {"micros", "us"},
                                           {"sec", "s"},   {"secs", "s"},    {"second", "s"}, {"seconds", "s"},
                                           {"min", "m"},   {"mins", "m"},    {"minute", "m"}, {"minutes", "m"},
                                           {"hr", "h"},    {"hour", "h"},    {"hours", "h"},  {"S", "s"},
                                           {"MS", "ms"},   {"M", "m"},       {"H", "h"}};
constexpr Spelling kSizeSpellings[] = {{"k", "KiB"},   {"kb", "KiB"},  {"kib", "KiB"}, {"m", "MiB"},   {"mb", "MiB"},
                                       {"mib", "MiB"}, {"g", "GiB"},   {"gb", "GiB"},  {"gib", "GiB"}, {"t", "TiB"},
                                       {"tb", "TiB"},  {"tib", "TiB"}, {"b", "B"}};

constexpr DurationNs kDurationMax = int64_t{100} * 365 * 24 * 3600 * kSecond;
constexpr int64_t kSizeMax = int64_t{1} << 60;

// "; did you mean 64MiB?" if `number` with a unit of ours may have been meant.
absl::Status expected_unit(std::string_view what, std::string_view text, std::string_view number,
                           std::span<const Spelling> spellings, std::string_view unit) {
  std::string message(expected(what, text).message());
  for (const Spelling& spelling : spellings) {
    if (number.empty() || spelling.written != unit) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(message, "; did you mean ", std::string(number), std::string(spelling.unit), "?"));
  }
  return absl::InvalidArgumentError(message);
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
  if (!parse_number(unsigned_part, value)) {
    const size_t sign = !digits.empty() && (digits[0] == '-' || digits[0] == '+') ? 1 : 0;
    const bool too_large = digits.size() > sign && digits.find_first_not_of("0123456789", sign) == std::string::npos;
    return expected(too_large ? "a whole number of 18 digits at most" : "a whole number", text);
  }
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
  const std::string_view digits = text.substr(0, start);
  if (!parse_number(digits, number) || number < 0) return expected(kWhat, text);
  for (const Unit& unit : kDurationUnits) {
    if (text.substr(start) != unit.name) continue;
    const double duration_ns = std::round(number * static_cast<double>(unit.factor));
    if (duration_ns > static_cast<double>(kDurationMax)) return expected("a duration of 100 years at most", text);
    return static_cast<DurationNs>(duration_ns);
  }
  return expected_unit(kWhat, text, digits, kDurationSpellings, text.substr(start));
}

absl::StatusOr<int64_t> parse_size(std::string_view text) {
  constexpr std::string_view kWhat = "a size in bytes such as 4096, 64KiB, 16MiB or 2GiB";
  const size_t start = unit_start(text);
  const std::string_view digits = text.substr(0, start);
  absl::StatusOr<int64_t> number = parse_int(digits);
  if (!number.ok() || *number < 0) return expected(kWhat, text);
  if (start == text.size() && *number <= kSizeMax) return *number;
  for (const Unit& unit : kSizeUnits) {
    if (text.substr(start) != unit.name) continue;
    if (*number > kSizeMax / unit.factor) return expected("a size of 1048576TiB at most", text);
    return *number * unit.factor;
  }
  if (start == text.size()) return expected("a size of 1048576TiB at most", text);
  return expected_unit(kWhat, text, digits, kSizeSpellings, absl::AsciiStrToLower(std::string(text.substr(start))));
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
