// Rows: a row that decodes encodes to the same bytes; damage never reads outside.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/base/check.h"
#include "ycsb/core/row_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const skua::ByteSpan row(reinterpret_cast<const std::byte*>(data), size);
  std::vector<skua::ycsb::NamedValue> fields;
  if (!skua::ycsb::decode_row(row, fields)) return 0;
  std::string again;
  for (const auto& field : fields) skua::ycsb::append_row_field(again, field.name, field.value);
  SKUA_CHECK(again == skua::as_string_view(row), "decode and encode disagree");
  return 0;
}
