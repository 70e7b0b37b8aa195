// Small text helpers over std::string_view.
#ifndef SKUA_YCSB_CORE_TEXT_H_
#define SKUA_YCSB_CORE_TEXT_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"

namespace skua::ycsb {

/// Joins strings and whole numbers.
template <typename... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::string out;
  const auto append = [&out](const auto& part) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(part)>>) {
      out += std::to_string(part);
    } else {
      out += std::string_view(part);
    }
  };
  (append(parts), ...);
  return out;
}

/// INVALID_ARGUMENT with the parts joined.
template <typename... Parts>
[[nodiscard]] absl::Status invalid_argument(const Parts&... parts) {
  return absl::InvalidArgumentError(concat(parts...));
}

/// "1 thread", "8 threads". For nouns that take an s.
[[nodiscard]] inline std::string counted(uint64_t number, std::string_view noun) {
  return concat(number, " ", noun, number == 1 ? "" : "s");
}

[[nodiscard]] inline std::string_view message_of(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

/// The pieces between separators; at least one, possibly empty.
[[nodiscard]] inline std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

[[nodiscard]] inline std::string_view trim_text(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

[[nodiscard]] inline std::string lower_text(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// The whole text as a number, or nothing.
template <typename T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  T value{};
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_TEXT_H_
