#include "kvstore/ctl/shell_words.h"

namespace skua::kv::ctl {

ShellWords split_command_line(std::string_view line) {
  ShellWords found;
  for (const char c : line) {
    if (found.open_quote != 0) {
      if (c == found.open_quote) {
        found.open_quote = 0;
      } else {
        found.words.back() += c;
      }
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      found.ends_in_word = false;
      continue;
    }
    if (!found.ends_in_word) {
      if (c == '#') break;
      found.words.emplace_back();
      found.ends_in_word = true;
    }
    if (c == '\'' || c == '"') {
      found.open_quote = c;
    } else {
      found.words.back() += c;
    }
  }
  return found;
}

}  // namespace skua::kv::ctl
