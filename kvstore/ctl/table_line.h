// A row of a table as a line of JSON: what `skuactl export` writes and `skuactl import` reads. Pure.
//
//   {"key":"greeting","value":"hello"}
//   {"key_base64":"/wA=","tag":7,"ttl_ms":1800000,"value_base64":"AAE="}
//
//   key, value                  UTF-8. Other bytes are in key_base64 and value_base64, which take the same place
//   tag, row                    the record's mark (types/record_mark.h); left out if they are 0 and false
//   ttl_ms                      the time that the key has left to live, in ms; left out: it does not expire
//
// A line has nothing else: a member of another name, or one that occurs twice, is refused.
#ifndef SKUA_KVSTORE_CTL_TABLE_LINE_H_
#define SKUA_KVSTORE_CTL_TABLE_LINE_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/types/record_mark.h"

namespace skua::kv::ctl {

struct TableLine {
  std::string key;
  std::string value;
  RecordMark mark{};
  /// nullopt: the key does not expire, or the time is not known.
  std::optional<std::chrono::milliseconds> ttl{};

  friend bool operator==(const TableLine&, const TableLine&) = default;
};

/// The longest line that a row can have: \u0000 stands for a byte, and the rest is names and numbers.
inline constexpr size_t kTableLineBytesMax = 6 * (kKeyBytesMax + kValueBytesMax) + 1024;

/// The line, without a line break.
[[nodiscard]] std::string line_of(const TableLine& row);

/// For every row that a table may have: parse_table_line(line_of(row)) == row. INVALID_ARGUMENT says what is wrong with
/// the line; also if a key, a value or a number is beyond the limits of tables.
[[nodiscard]] absl::StatusOr<TableLine> parse_table_line(std::string_view line);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_TABLE_LINE_H_
