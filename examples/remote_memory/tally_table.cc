#include "examples/remote_memory/tally_table.h"

#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace skua::examples {

absl::Status check_names(std::span<const std::string> names) {
  if (names.empty()) return absl::InvalidArgumentError("there is nothing to count: give at least one name");
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty() || name.size() > kNameMax) {
      return absl::InvalidArgumentError(absl::StrCat("a name has 1 to ", kNameMax, " bytes: \"", name, "\""));
    }
    if (!seen.insert(name).second) return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is there twice"));
  }
  return absl::OkStatus();
}

void write_table(std::span<const std::string> names, MutableByteSpan table) {
  std::byte* row = table.data();
  for (const std::string& name : names) {
    copy_bytes(row + sizeof(uint64_t), as_byte_span(name));
    row += kRowBytes;
  }
}

std::vector<TallyRow> read_table(ByteSpan table) {
  std::vector<TallyRow> rows;
  for (; table.size() >= kRowBytes; table = table.subspan(kRowBytes)) {
    const std::string_view name = as_string_view(table.subspan(sizeof(uint64_t), kNameMax));
    rows.push_back({std::string(name.substr(0, name.find('\0'))), load_le<uint64_t>(table.data())});
  }
  return rows;
}

}  // namespace skua::examples
