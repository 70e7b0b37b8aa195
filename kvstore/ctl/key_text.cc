#include "kvstore/ctl/key_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

constexpr size_t kEscapeBytes = 4;  // \x00

bool is_hex_escape(std::string_view text) {
  return text.size() >= kEscapeBytes && text[1] == 'x' && absl::ascii_isxdigit(static_cast<unsigned char>(text[2])) &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[3]));
}

}  // namespace

std::string key_text(std::string_view key) {
  // Doubles the key's own backslashes here, because those that printable() adds begin escapes.
  std::string out;
  while (true) {
    const size_t at = key.find('\\');
    out += printable(key.substr(0, at));
    if (at == std::string_view::npos) return out;
    out += "\\\\";
    key.remove_prefix(at + 1);
  }
}

absl::StatusOr<std::string> parse_key(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text.front() != '\\') {
      out.push_back(text.front());
      text.remove_prefix(1);
    } else if (text.substr(0, 2) == "\\\\") {
      out.push_back('\\');
      text.remove_prefix(2);
    } else if (is_hex_escape(text)) {
      out += absl::HexStringToBytes(absl_view(text.substr(2, 2)));
      text.remove_prefix(kEscapeBytes);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", printable(text.substr(0, 2)),
                       ", which is no escape: write \\\\ for a backslash and \\xNN for a byte, or give --raw-keys"));
    }
  }
  return out;
}

std::string shell_word(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(absl_view(text), {{"'", "'\\''"}}), "'");
}

}  // namespace skua::kv::ctl
