// The table that skua-tally keeps: rows of 64 bytes, one for each thing that is counted.
//
//    | count 8, little endian | name 56, zeroes behind it |      a row, on a cache line of its own
//
// There is nothing else in it: how many rows there are follows from the region's size. A count stands where an atomic
// can reach it, on a multiple of 8.
#ifndef SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_TABLE_H_
#define SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rpc/base/bytes.h"

namespace skua::examples {

inline constexpr size_t kRowBytes = 64;
inline constexpr size_t kNameMax = kRowBytes - sizeof(uint64_t);

struct TallyRow {
  std::string name;
  uint64_t count = 0;
};

/// Under this name the keeper publishes the table.
inline constexpr char kTableName[] = "tally";

/// INVALID_ARGUMENT: no names, one that is empty, too long or there twice.
[[nodiscard]] absl::Status check_names(std::span<const std::string> names);
/// Names that were checked, counts of zero; `table` is zeroed and has room.
void write_table(std::span<const std::string> names, MutableByteSpan table);
/// Any bytes: what is not a whole row is left out.
[[nodiscard]] std::vector<TallyRow> read_table(ByteSpan table);

}  // namespace skua::examples

#endif  // SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_TABLE_H_
