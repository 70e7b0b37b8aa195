// Any text as a line of an import: what is taken is within the limits of tables and is read back as it was; any row is
// read back from its line.
#include <string>

#include "kvstore/codec/request.h"
#include "kvstore/ctl/table_line.h"
#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::kv::ctl {
namespace {

void read_back(const TableLine& row) {
  const std::string line = line_of(row);
  SKUA_CHECK(line.find('\n') == std::string::npos, "a row has two lines");
  SKUA_CHECK(line.size() <= kTableLineBytesMax, "a row's line is too long");
  const absl::StatusOr<TableLine> read = parse_table_line(line);
  SKUA_CHECK(read.ok() && *read == row, "a row is not read back");
}

void run(fuzz::FuzzInput input) {
  if (input.flag()) {
    TableLine row{.key = input.short_text(), .value = ""};
    row.mark = {input.number<uint32_t>(), input.flag()};
    if (input.flag()) row.ttl = std::chrono::milliseconds(1 + input.number<uint64_t>() % kTtlMsMax);
    row.value = std::string(as_string_view(input.take_rest()));
    if (!row.key.empty()) read_back(row);
    return;
  }
  const absl::StatusOr<TableLine> row = parse_table_line(as_string_view(input.take_rest()));
  if (!row.ok()) {
    SKUA_CHECK(!row.status().message().empty(), "a refusal says nothing");
    return;
  }
  SKUA_CHECK(check_key(row->key).ok() && check_value(as_byte_span(row->value)).ok(), "a row is beyond the limits");
  read_back(*row);
}

}  // namespace
}  // namespace skua::kv::ctl

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::kv::ctl::run(skua::fuzz::FuzzInput(std::as_bytes(std::span(data, size))));
  return 0;
}
