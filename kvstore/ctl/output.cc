#include "kvstore/ctl/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "app/file.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/codec/text.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

/// Most bytes of a table's cell: its text may come from a peer.
constexpr size_t kCellBytesMax = 1000;

/// True if the control plane did not answer, but the request may have reached it.
bool may_have_been_done(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) return true;
  if (!absl::IsUnavailable(status)) return false;
  // gRPC's messages for a connection that broke after it had been established.
  for (const char* broken : {"Socket closed", "Connection reset", "Broken pipe", "recvmsg", "GOAWAY", "Stream removed",
                             "keepalive", "End of TCP stream", "Transport closed"}) {
    if (absl::StrContains(status.message(), broken)) return true;
  }
  return false;
}

[[noreturn]] void too_large(const std::string& what) {
  fail_usage(absl::StrCat(what, " is too large: at most ", with_commas(kValueBytesMax), " bytes are allowed"));
}

/// must() and must_change(), when the failure has been reported.
[[noreturn]] void end_with(int code) {
  std::fflush(stdout);
  std::_Exit(code);
}

std::string read_standard_input() {
  std::string text;
  std::vector<char> block(size_t{64} << 10);
  while (const size_t got = std::fread(block.data(), 1, block.size(), stdin)) {
    text.append(block.data(), got);
    if (text.size() > kMessageBytesMax) too_large("standard input");
  }
  if (std::ferror(stdin) != 0) fail_usage("cannot read standard input");
  return text;
}

}  // namespace

control::CredentialsPtr credentials_of(const Globals& globals) {
  return must_be_valid(control::Credentials::load(globals.credential_files));
}

void print_error(std::string_view message) {
  std::fputs(app::error_line(kProgram, message).c_str(), stderr);
}

void print_notice(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", kProgram, text.c_str());
}

absl::Status with_words(std::string_view before, const absl::Status& status, std::string_view behind) {
  return absl::Status(status.code(), absl::StrCat(absl_view(before), status.message(), absl_view(behind)));
}

void fail_usage(std::string_view message) {
  app::fail_usage(kProgram, message);
}

void must_be_valid(const absl::Status& status, const std::string& prefix) {
  if (!status.ok()) fail_usage(absl::StrCat(prefix, status.message()));
}

int report_failure(const absl::Status& status) {
  constexpr char kGrpcsWords[] = ": Deadline Exceeded";
  std::string line = absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
  if (absl::EndsWith(line, kGrpcsWords)) {
    line.resize(line.size() - (sizeof kGrpcsWords - 1));
    line += " gave no answer within --timeout";
  }
  std::fflush(stdout);
  print_error(line);
  return app::kExitFailure;
}

std::unique_ptr<app::StopSignal> stop_signal_of_wait(DurationNs wait_ns) {
  return wait_ns == 0 ? nullptr : must(app::StopSignal::install());
}

int report_change_failure(const absl::Status& status, const std::string& look) {
  if (!may_have_been_done(status)) return report_failure(status);
  return report_failure(with_words("", status, "; it may have been done: look with " + look));
}

void must(const absl::Status& status) {
  if (!status.ok()) end_with(report_failure(status));
}

void must_change(const absl::Status& status, const std::string& look) {
  if (!status.ok()) end_with(report_change_failure(status, look));
}

std::string read_input(const std::string& path) {
  if (path == "-") {
    if (isatty(STDIN_FILENO) != 0) std::fprintf(stderr, "%s: reads from the terminal; Ctrl-D ends it\n", kProgram);
    return read_standard_input();
  }
  // This limit is above that of a value. The check of the value reports the exact size of files between the two limits.
  absl::StatusOr<std::string> text = app::read_file(path, kMessageBytesMax);
  if (absl::StrContains(text.status().message(), " has more than ")) too_large(path);
  return must_be_valid(std::move(text), "cannot read the file: ");
}

void print_json(const nlohmann::json& json, int indent) {
  // Text from a peer or a file name may be invalid UTF-8. It is replaced, so that programs can parse the output.
  std::printf("%s\n", json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

int answer(const Globals& globals, const nlohmann::json& json, const std::string& text) {
  if (globals.json) {
    print_json(json);
  } else {
    std::fputs(text.c_str(), stdout);
  }
  return app::kExitOk;
}

bool confirmed(bool yes, const std::string& warning, const std::string& answer) {
  if (yes) return true;
  if (isatty(STDIN_FILENO) == 0) fail_usage(warning + "; add --yes to mean it");
  std::fprintf(stderr, "%s. Type %s to go on: ", warning.c_str(), answer.c_str());
  std::string typed;
  std::getline(std::cin, typed);
  if (typed == answer) return true;
  std::fprintf(stderr, "%s: not done\n", kProgram);
  return false;
}

void set_text(nlohmann::json& object, const char* name, const char* encoding_name, std::string_view bytes) {
  const bool as_it_is = is_utf8(bytes);
  object[name] = as_it_is ? std::string(bytes) : absl::Base64Escape(absl_view(bytes));
  object[encoding_name] = as_it_is ? "utf-8" : "base64";
}

std::string table(TableRows rows) {
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
