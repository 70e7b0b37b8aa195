#include "ycsb/core/properties.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\f';
}

/// Takes natural lines off the text and joins those that end in an odd number of backslashes.
class LogicalLines {
 public:
  explicit LogicalLines(std::string_view text) : rest_(text) {}

  /// The next line that is neither blank nor a comment, without leading blanks.
  bool next(std::string& line) {
    while (!rest_.empty()) {
      line = take_natural_line();
      if (line.empty() || line[0] == '#' || line[0] == '!') continue;
      while (ends_in_continuation(line)) {
        line.pop_back();
        if (rest_.empty()) break;
        line += take_natural_line();
      }
      if (!line.empty()) return true;
    }
    return false;
  }

  [[nodiscard]] int line_number() const { return line_number_; }

 private:
  std::string take_natural_line() {
    const size_t end = std::min(rest_.find_first_of("\r\n"), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (rest_.starts_with("\r\n")) {
      rest_.remove_prefix(2);
    } else if (!rest_.empty()) {
      rest_.remove_prefix(1);
    }
    ++line_number_;
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    return std::string(line);
  }

  static bool ends_in_continuation(std::string_view line) {
    const size_t last_other = line.find_last_not_of('\\');
    const size_t backslashes = line.size() - (last_other == line.npos ? 0 : last_other + 1);
    return backslashes % 2 == 1;
  }

  std::string_view rest_;
  int line_number_ = 0;
};

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

bool unescape(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      if (text[i] != '\\') out += text[i];
      continue;
    }
    const char escaped = text[++i];
    switch (escaped) {
      case 't': out += '\t'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 'f': out += '\f'; break;
      case 'u': {
        uint32_t code = 0;
        const std::string_view digits = text.substr(i + 1, 4);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4) return false;
        append_utf8(out, code);
        i += 4;
        break;
      }
      default: out += escaped;
    }
  }
  return true;
}

/// Splits at the first unescaped separator: blanks, at most one = or :, blanks.
std::pair<std::string_view, std::string_view> split(std::string_view line) {
  size_t end = 0;
  while (end < line.size() && !is_blank(line[end]) && line[end] != '=' && line[end] != ':')
    end += line[end] == '\\' ? 2 : 1;
  end = std::min(end, line.size());
  std::string_view value = line.substr(end);
  const auto skip_blanks = [&value] {
    while (!value.empty() && is_blank(value.front())) value.remove_prefix(1);
  };
  skip_blanks();
  if (!value.empty() && (value.front() == '=' || value.front() == ':')) {
    value.remove_prefix(1);
    skip_blanks();
  }
  return {line.substr(0, end), value};
}

std::string plain(double value) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// A compiled program, an archive, a picture: no text has such bytes.
bool is_binary(std::string_view line) {
  return std::any_of(line.begin(), line.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0x7f || (byte < 0x20 && !is_blank(c));
  });
}

/// For 1e6, 1,000,000, 1_000_000 and 1M, the number that is meant.
std::optional<uint64_t> number_meant(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != ',' && c != '_') digits += c;
  double factor = 1;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'k':
      case 'K': factor = 1e3; break;
      case 'm':
      case 'M': factor = 1e6; break;
      case 'g':
      case 'G': factor = 1e9; break;
      default: break;
    }
    if (factor > 1) digits.pop_back();
  }
  const double value = parse_number<double>(digits).value_or(-1) * factor;
  constexpr double kExact = 9e15;  // doubles have all whole numbers below
  if (!(value >= 0 && value < kExact) || value != std::floor(value)) return std::nullopt;
  return static_cast<uint64_t>(value);
}

}  // namespace

void Properties::set(std::string_view name, std::string_view value) {
  values_.insert_or_assign(std::string(name), std::string(value));
}

void Properties::erase(std::string_view name) {
  if (const auto it = values_.find(name); it != values_.end()) values_.erase(it);
}

std::optional<std::string_view> Properties::find(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return std::nullopt;
  return it->second;
}

absl::Status Properties::parse(std::string_view text, std::vector<std::string>* remarks) {
  LogicalLines lines(text);
  std::map<std::string, std::pair<int, std::string>> seen;
  std::string line;
  std::string name;
  std::string value;
  while (lines.next(line)) {
    if (is_binary(line)) return invalid_argument("line ", lines.line_number(), " is no text; is it a property file?");
    const auto [raw_name, raw_value] = split(line);
    if (!unescape(raw_name, name) || !unescape(raw_value, value)) {
      return invalid_argument("line ", lines.line_number(), ": ", line, ": \\u needs four hexadecimal digits");
    }
    value.resize(value.find_last_not_of(" \t\r\n\f") + 1);
    set(name, value);
    if (remarks == nullptr) continue;
    const std::pair<int, std::string> place = {lines.line_number(), value};
    const auto [before, is_new] = seen.try_emplace(name, place);
    if (!is_new && before->second.second != value) {
      remarks->push_back(concat("line ", place.first, ": ", name, "=", value, " replaces the ", before->second.second,
                                " of line ", before->second.first));
      before->second = place;
    }
  }
  return absl::OkStatus();
}

std::string PropertyReader::text(std::string_view name, std::string_view otherwise) {
  return std::string(properties_.find(name).value_or(otherwise));
}

uint64_t PropertyReader::whole(std::string_view name, uint64_t otherwise, uint64_t low, uint64_t high,
                               std::string_view unit) {
  const auto value = properties_.find(name);
  if (!value) return otherwise;
  const auto number = parse_number<uint64_t>(*value);
  if (!number || *number < low || *number > high) {
    const auto meant = number ? std::nullopt : number_meant(*value);
    const bool fits = meant && *meant >= low && *meant <= high;
    fail(concat(name, "=", *value, ": must be a whole number", unit.empty() ? "" : concat(" of ", unit), " from ", low,
                " to ", high, fits ? concat("; write ", *meant) : ""));
    return otherwise;
  }
  return *number;
}

double PropertyReader::real(std::string_view name, double otherwise, double low, double high) {
  const auto value = properties_.find(name);
  if (!value) return otherwise;
  const auto number = parse_number<double>(*value);
  if (!number || !std::isfinite(*number) || *number < low || *number > high) {
    fail(concat(name, "=", *value, ": must be a number from ", plain(low), " to ", plain(high)));
    return otherwise;
  }
  return *number;
}

bool PropertyReader::flag(std::string_view name, bool otherwise) {
  const auto value = properties_.find(name);
  if (!value) return otherwise;
  const std::string lower = lower_text(*value);
  if (lower == "true") return true;
  if (lower != "false") fail(concat(name, "=", *value, ": must be true or false"));
  return false;
}

size_t PropertyReader::choice(std::string_view name, std::string_view otherwise,
                              std::initializer_list<std::string_view> choices) {
  const std::string_view value = properties_.find(name).value_or(otherwise);
  const auto* const it = std::find(choices.begin(), choices.end(), value);
  if (it != choices.end()) return static_cast<size_t>(it - choices.begin());
  std::string list;
  for (const std::string_view one : choices) list += concat(list.empty() ? "" : ", ", one);
  fail(concat(name, "=", value, ": must be one of ", list));
  return 0;
}

void PropertyReader::fail(std::string_view message) {
  if (status_.ok()) status_ = invalid_argument(message);
}

}  // namespace skua::ycsb
