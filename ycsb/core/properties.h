// Java property files, and typed reading of properties.
//
// The file format is java.util.Properties': `name=value`, `name: value` or `name value`; lines
// whose first visible character is # or ! are comments; a backslash escapes (\t \n \r \f \uXXXX,
// any other character stands for itself) and, at the end of a line, continues it. Lines end with
// LF, CR or CRLF. One difference: blanks at the end of a value are dropped (Java keeps them), for
// nobody means `fieldcount=10 `.
#ifndef SKUA_YCSB_CORE_PROPERTIES_H_
#define SKUA_YCSB_CORE_PROPERTIES_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace skua::ycsb {

/// Names to values, in order of name.
class Properties {
 public:
  using Map = std::map<std::string, std::string, std::less<>>;

  void set(std::string_view name, std::string_view value);
  void erase(std::string_view name);
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name).has_value(); }
  [[nodiscard]] const Map& all() const { return values_; }

  /// Adds what a property file's text holds; a later entry replaces an earlier one. What the text itself gives twice
  /// with two values is named in `remarks` ("line 7: fieldcount=5 replaces the 10 of line 3"), if that is not null.
  /// Errors: INVALID_ARGUMENT with the line number, for a broken \u escape and for bytes that no text has.
  absl::Status parse(std::string_view text, std::vector<std::string>* remarks = nullptr);

 private:
  Map values_;
};

/// Reads typed values and keeps the first error, so that a long list of settings is read in
/// straight lines and asked about once.
class PropertyReader {
 public:
  explicit PropertyReader(const Properties& properties) : properties_(properties) {}

  std::string text(std::string_view name, std::string_view otherwise);
  /// A whole number within [low, high]; `unit` is for the error: "seconds".
  uint64_t whole(std::string_view name, uint64_t otherwise, uint64_t low, uint64_t high, std::string_view unit = {});
  /// A finite number within [low, high].
  double real(std::string_view name, double otherwise, double low, double high);
  /// true or false, in any case of letters.
  bool flag(std::string_view name, bool otherwise);
  /// The position of the value in `choices`.
  size_t choice(std::string_view name, std::string_view otherwise, std::initializer_list<std::string_view> choices);
  /// Records a problem found by the caller.
  void fail(std::string_view message);

  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  const Properties& properties_;
  absl::Status status_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_PROPERTIES_H_
