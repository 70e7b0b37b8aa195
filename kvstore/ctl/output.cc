#include "kvstore/ctl/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "app/exit.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

/// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length == 0 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

int report_failure(const absl::Status& status) {
  std::string line(status.message());
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "%s: %s: %s\n", kProgram, absl::StatusCodeToString(status.code()).c_str(), line.c_str());
  return app::kExitFailure;
}

bool confirmed(bool yes, const std::string& warning, const std::string& answer) {
  if (yes) return true;
  if (isatty(STDIN_FILENO) == 0) app::fail_usage(kProgram, warning + "; add --yes to mean it");
  std::fprintf(stderr, "%s. Type %s to go on: ", warning.c_str(), answer.c_str());
  std::string typed;
  std::getline(std::cin, typed);
  if (typed == answer) return true;
  std::fprintf(stderr, "%s: not done\n", kProgram);
  return false;
}

std::string printable(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t length = utf8_length(bytes);
    const auto first = static_cast<unsigned char>(bytes[0]);
    if (length == 0 || first < 0x20 || first == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", first);
      bytes.remove_prefix(1);
    } else {
      out.append(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  return out;
}

JsonText json_text(std::string_view bytes) {
  if (is_utf8(bytes)) return {std::string(bytes), "utf-8"};
  return {absl::Base64Escape(absl_view(bytes)), "base64"};
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += line + '\n';
  }
  return out;
}

}  // namespace skua::kv::ctl
