// A record as one value, for stores that hold a single value per key (row format `single`, the one
// YCSB-cpp uses): for each field
//
//   | u32 length of name | name | u32 length of value | value |     lengths little endian
//
// with nothing before, between or after.
#ifndef SKUA_YCSB_CORE_ROW_FORMAT_H_
#define SKUA_YCSB_CORE_ROW_FORMAT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/bytes.h"
#include "ycsb/core/operation.h"

namespace skua::ycsb {

/// Appends one field to `row`.
void append_row_field(std::string& row, std::string_view name, std::string_view value);

/// The row's fields as views into it, in `fields` (cleared first). False, with `fields` holding
/// what came before the damage, if the bytes are no row.
[[nodiscard]] bool decode_row(ByteSpan row, std::vector<NamedValue>& fields);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_ROW_FORMAT_H_
