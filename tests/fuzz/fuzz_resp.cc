// Any bytes as a Redis client's, cut anywhere: the commands and the error are the same, the input is taken as far as
// the parser says, and what is kept is bounded.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/gateway/resp_parser.h"
#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::kv::gateway {
namespace {

struct Parsed {
  std::vector<CommandArguments> commands;
  std::string error;
  bool is_amid_command = false;
  friend bool operator==(const Parsed&, const Parsed&) = default;
};

/// False: the stream cannot be followed any longer.
bool take(RespParser& parser, std::string_view piece, Parsed& out) {
  for (;;) {
    const size_t before = piece.size();
    const RespParser::Found found = parser.parse(piece);
    SKUA_CHECK(piece.size() <= before, "input grew");
    out.is_amid_command = parser.is_amid_command();
    if (found == RespParser::Found::kNothing) {
      SKUA_CHECK(piece.empty(), "input is left, and nothing was found");
      return true;
    }
    if (found == RespParser::Found::kError) {
      out.error = parser.error();
      SKUA_CHECK(!out.error.empty(), "an error without a text");
      return false;
    }
    const CommandArguments& words = parser.arguments();
    SKUA_CHECK(!words.empty(), "a command without words");
    SKUA_CHECK(words.byte_count() <= kRespCommandBytesMax, "a command beyond its limit");
    out.commands.push_back(words);
  }
}

void run(fuzz::FuzzInput input) {
  const std::string cuts = input.short_text();
  const std::string stream(as_string_view(input.take_rest()));
  Parsed whole;
  RespParser one;
  take(one, stream, whole);

  Parsed cut;
  RespParser other;
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
