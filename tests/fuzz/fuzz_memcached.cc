// Any bytes as those of a client of memcached, cut anywhere: the commands and the errors are the same, and the input is
// taken as far as the parser says.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/gateway/memcached_parser.h"
#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::kv::gateway {
namespace {

struct Parsed {
  std::vector<CommandArguments> commands;
  /// Also of the commands between them.
  std::vector<std::string> errors;
  bool is_amid_command = false;
  friend bool operator==(const Parsed&, const Parsed&) = default;
};

/// False: the stream cannot be followed any longer.
bool take(MemcachedParser& parser, std::string_view piece, Parsed& out) {
  for (;;) {
    const size_t before = piece.size();
    const MemcachedParser::Found found = parser.parse(piece);
    SKUA_CHECK(piece.size() <= before, "input grew");
    out.is_amid_command = parser.is_amid_command();
    if (found == MemcachedParser::Found::kNothing) {
      SKUA_CHECK(piece.empty(), "input is left, and nothing was found");
      return true;
    }
    if (found == MemcachedParser::Found::kCommand) {
      SKUA_CHECK(!parser.arguments().empty() && !parser.arguments()[0].empty(), "a command without a name");
      out.commands.push_back(parser.arguments());
      continue;
    }
    // Where among the commands the error came belongs to what must be the same.
    out.errors.push_back(std::to_string(out.commands.size()) + std::string(parser.error()));
    if (found == MemcachedParser::Found::kBroken) return false;
  }
}

void run(fuzz::FuzzInput input) {
  const std::string cuts = input.short_text();
  const std::string stream(as_string_view(input.take_rest()));
  Parsed whole;
  MemcachedParser one;
  take(one, stream, whole);

  Parsed cut;
  MemcachedParser other;
  std::string_view rest = stream;
  bool goes_on = true;
  for (size_t i = 0; goes_on && !rest.empty(); ++i) {
    const size_t size = cuts.empty() ? 1 : static_cast<uint8_t>(cuts[i % cuts.size()]) % 32 + size_t{1};
    const std::string piece(rest.substr(0, size));  // memory of its own: reads beyond it are seen
    rest.remove_prefix(piece.size());
    goes_on = take(other, piece, cut);
  }
  SKUA_CHECK(whole == cut, "another cut gives other commands");
}

}  // namespace
}  // namespace skua::kv::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::kv::gateway::run(skua::fuzz::FuzzInput(std::as_bytes(std::span(data, size))));
  return 0;
}
