#include "kvstore/ctl/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "app/exit.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

/// Of one cell of a table: what it says may be a peer's.
constexpr size_t kCellBytesMax = 1000;

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

JsonText json_text(std::string_view bytes) {
  if (is_utf8(bytes)) return {std::string(bytes), "utf-8"};
  return {absl::Base64Escape(absl_view(bytes)), "base64"};
}

std::string table(std::vector<std::vector<std::string>> rows) {
  std::vector<size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell, kCellBytesMax);
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
