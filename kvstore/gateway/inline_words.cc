#include "kvstore/gateway/inline_words.h"

#include "absl/strings/ascii.h"

namespace skua::kv::gateway {
namespace {

bool is_blank(char byte) {
  return absl::ascii_isspace(static_cast<unsigned char>(byte));
}

unsigned hex_digit(char byte) {
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(byte));
  return static_cast<unsigned>(lower <= '9' ? lower - '0' : lower - 'a' + 10);
}

bool is_hex(char byte) {
  return absl::ascii_isxdigit(static_cast<unsigned char>(byte));
}

char unescape(char byte) {
  switch (byte) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return byte;
  }
}

/// Reads from behind the opening quote to behind the closing one. False: there is none.
bool take_quoted(char quote, std::string_view& line, CommandArguments& words) {
  while (!line.empty()) {
    const char byte = line.front();
    size_t taken = 1;
    if (byte == quote) {
      line.remove_prefix(1);
      return line.empty() || is_blank(line.front());
    }
    if (quote == '"' && line.size() >= 4 && byte == '\\' && line[1] == 'x' && is_hex(line[2]) && is_hex(line[3])) {
      words.push_back(static_cast<char>(hex_digit(line[2]) * 16 + hex_digit(line[3])));
      taken = 4;
    } else if (quote == '"' && byte == '\\' && line.size() >= 2) {
      words.push_back(unescape(line[1]));
      taken = 2;
    } else if (quote == '\'' && byte == '\\' && line.size() >= 2 && line[1] == '\'') {
      words.push_back('\'');
      taken = 2;
    } else {
      words.push_back(byte);
    }
    line.remove_prefix(taken);
  }
  return false;
}

}  // namespace

bool split_inline_words(std::string_view line, CommandArguments& words) {
  for (;;) {
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    if (line.empty()) return true;
    // A word may begin bare and go on in quotes: a"b c" is the word `ab c`.
    while (!line.empty() && !is_blank(line.front())) {
      const char byte = line.front();
      line.remove_prefix(1);
      if (byte == '"' || byte == '\'') {
        if (!take_quoted(byte, line, words)) return false;
        break;
      }
      words.push_back(byte);
    }
    words.end_argument();
  }
}

}  // namespace skua::kv::gateway
