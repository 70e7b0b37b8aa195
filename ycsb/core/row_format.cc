#include "ycsb/core/row_format.h"

#include <array>

namespace skua::ycsb {
namespace {

void append_prefixed(std::string& row, std::string_view bytes) {
  std::array<std::byte, 4> length;
  store_le(length.data(), static_cast<uint32_t>(bytes.size()));
  row += as_string_view(length);
  row += bytes;
}

}  // namespace

void append_row_field(std::string& row, std::string_view name, std::string_view value) {
  append_prefixed(row, name);
  append_prefixed(row, value);
}

bool decode_row(ByteSpan row, std::vector<NamedValue>& fields) {
  fields.clear();
  ByteReader reader(row);
  while (reader.remaining() != 0) {
    const ByteSpan name = reader.read_prefixed<uint32_t>();
    const ByteSpan value = reader.read_prefixed<uint32_t>();
    if (!reader.ok()) return false;
    fields.push_back({as_string_view(name), as_string_view(value)});
  }
  return reader.ok();
}

}  // namespace skua::ycsb
