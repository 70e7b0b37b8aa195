// skuactl audit: reads the audit log of a control plane. Works on files and needs no cluster.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "app/exit.h"
#include "app/file.h"
#include "control/security/audit_chain.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

using control::AuditLine;
using control::AuditVerifier;

/// Files of a log are much smaller.
constexpr size_t kFileBytesMax = size_t{1} << 30;

struct Arguments {
  std::vector<std::string> files;
  std::string contains;
};

struct LogFile {
  std::string path;
  std::string bytes;
  uint64_t first = 0;  // number of its first line; 0: that is none
  std::string chain;   // of its log's chains (control/security/audit_log.h)
};

/// The files of one chain.
using Chain = std::vector<LogFile>;

struct LogFiles {
  std::vector<Chain> chains;  // changes first, each in the order of its lines
  // With a part of their first line and nothing else: a crash came when they were begun. They do not say which chain
  // they are of.
  std::vector<LogFile> torn;
};

/// What a look through the files found.
struct Result {
  std::string name{};  // of the chain; empty: the changes
  AuditVerifier chain{};
  uint64_t lines = 0;
  size_t torn_bytes = 0;
  bool contains = false;
  std::string bad_file{};
  uint64_t bad_line = 0;  // counted from 1
  absl::Status trouble{};
};

/// Takes the next line off `rest`; nothing: there is no whole one.
std::optional<std::string_view> next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

LogFile read_file(const std::string& path) {
  LogFile file{.path = path, .bytes = must_be_valid(app::read_file(path, kFileBytesMax)), .first = 0, .chain = ""};
  std::string_view rest = file.bytes;
  const auto first = control::parse_audit_line(next_line(rest).value_or(""));
  if (!first.ok()) return file;
  file.first = first->self.sequence;
  for (const auto& [name, value] : first->fields) {
    if (first->event == control::kAuditBegin && name == control::kAuditChainField) file.chain = value;
  }
  return file;
}

/// Reads the files, in whatever order they were named.
LogFiles read_files(const std::vector<std::string>& paths) {
  LogFiles found;
  std::map<std::string, Chain> by_name;
  for (const std::string& path : paths) {
    LogFile file = read_file(path);
    if (file.bytes.find('\n') == std::string::npos) {
      if (!file.bytes.empty()) found.torn.push_back(std::move(file));
      continue;
    }
    by_name[file.chain].push_back(std::move(file));
  }
  for (auto& [name, files] : by_name) {
    std::stable_sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) { return a.first < b.first; });
    found.chains.push_back(std::move(files));
  }
  return found;
}

/// False: the chain is over.
bool follow(const LogFile& file, bool is_last, const std::string& contains, Result& result) {
  result.chain.next_file();
  result.bad_file = file.path;
  result.bad_line = 0;
  std::string_view rest = file.bytes;
  while (const auto line = next_line(rest)) {
    ++result.bad_line;
    result.trouble = result.chain.take(*line);
    if (!result.trouble.ok()) return false;
    ++result.lines;
    if (result.chain.head().hash == contains) result.contains = true;
  }
  if (rest.empty()) return true;
  ++result.bad_line;
  if (is_last) {
    result.torn_bytes = rest.size();
    return true;
  }
  result.trouble = absl::DataLossError("the line is not complete, and other files follow");
  return false;
}

Result look_through(const Chain& files, const std::string& contains) {
  Result result{.name = files.front().chain};
  for (const LogFile& file : files) {
    if (!follow(file, &file == &files.back(), contains, result)) return result;
  }
  if (result.lines == 0) {
    result.bad_line = 1;
    result.trouble = absl::DataLossError("there is no line");
  }
  return result;
}

/// Why the files are not as the log was written; empty: they are.
std::string fault_of(const std::vector<Result>& results, const Arguments& arguments) {
  if (results.empty()) return absl::StrCat(arguments.files.front(), ", line 1: there is no line");
  for (const Result& result : results) {
    if (result.trouble.ok()) continue;
    return absl::StrCat(result.bad_file, ", line ", result.bad_line, ": ", result.trouble.message());
  }
  const std::string& contains = arguments.contains;
  const bool is_there = std::ranges::any_of(results, &Result::contains);
  if (contains.empty() || is_there) return "";
  return absl::StrCat("no line has the hash ", printable(contains, 80),
                      ": lines were cut off, or all were written anew");
}

nlohmann::json chain_json(const Result& result) {
  const auto& first = result.chain.first();
  return {{"chain", result.name.empty() ? "changes" : result.name},
          {"lines", result.lines},
          {"first_seq", first ? first->self.sequence : 0},
          {"first_time", first ? first->time : ""},
          {"last_seq", result.chain.head().sequence},
          {"last_time", result.chain.last_time()},
          {"last_hash", result.chain.head().hash},
          {"torn_bytes", result.torn_bytes}};
}

/// What is known of a single chain stands there directly, too, as before there were several.
void print_verdict_json(const LogFiles& found, const std::vector<Result>& results, const std::string& fault) {
  nlohmann::json verdict = chain_json(results.empty() ? Result() : results.front());
  verdict["torn_files"] = json_list(found.torn, [](const LogFile& file) -> nlohmann::json {
    return {{"file", file.path}, {"torn_bytes", file.bytes.size()}};
  });
  verdict["intact"] = fault.empty();
  verdict["fault"] = fault;
  verdict["chains"] = json_list(results, chain_json);
  print_json(verdict);
}

void print_verdict(const Result& result) {
  const AuditLine& first = *result.chain.first();
  absl::PrintF("%d lines are as they were written, each following the one before it\n", result.lines);
  absl::PrintF("first   number %d, %s\n", first.self.sequence, printable(first.time));
  absl::PrintF("last    number %d, %s\n", result.chain.head().sequence, printable(result.chain.last_time()));
  absl::PrintF("hash    %s\n", result.chain.head().hash);
  if (first.self.sequence > 1) {
    absl::PrintF("Numbers 1 to %d are not in these files: old files are removed, so this may be all right.\n",
                 first.self.sequence - 1);
  }
  if (result.torn_bytes > 0) {
    absl::PrintF("The last line is not complete (%d bytes): a crash leaves that, or it is just being written.\n",
                 result.torn_bytes);
  }
}

void print_torn(const std::vector<LogFile>& files) {
  for (const LogFile& file : files) {
    absl::PrintF(
        "\n%s has only a part of its first line (%d bytes): a crash leaves that, or it is just being written.\n",
        printable(file.path), file.bytes.size());
  }
}

int verify(const Globals& globals, const Arguments& arguments) {
  const LogFiles found = read_files(arguments.files);
  std::vector<Result> results;
  results.reserve(found.chains.size());
  for (const Chain& chain : found.chains) results.push_back(look_through(chain, arguments.contains));
  const std::string fault = fault_of(results, arguments);
  if (globals.json) {
    print_verdict_json(found, results, fault);
  } else if (fault.empty()) {
    for (const Result& result : results) {
      if (!result.name.empty()) absl::PrintF("\n%s:\n", printable(result.name));
      print_verdict(result);
    }
    print_torn(found.torn);
    absl::PrintF(
        "Lines cut off at the end, and a log written anew as a whole, show only by a hash that was noted\n"
        "elsewhere: skuactl audit verify --contains HASH FILE...\n");
  }
  if (fault.empty()) return app::kExitOk;
  return globals.json ? app::kExitFailure : report_failure(absl::DataLossError(fault));
}

void print_line(const AuditLine& line) {
  std::string text = absl::StrCat(line.time, "  ", line.event);
  for (const auto& [name, value] : line.fields) {
    const bool plain = !value.empty() && value.find_first_of(" \"=") == std::string::npos;
    absl::StrAppend(&text, " ", name, "=", plain ? value : nlohmann::json(value).dump());
  }
  absl::PrintF("%s\n", printable(text));
}

struct ShownLine {
  std::string at;  // its time, or that of a line before it in its chain, if that is later: a clock may be set back
  AuditLine line;
};

/// Adds the lines of a chain; returns how many were none.
uint64_t add_lines(const Chain& chain, std::vector<ShownLine>& lines) {
  uint64_t bad = 0;
  std::string at;
  for (const LogFile& file : chain) {
    std::string_view rest = file.bytes;
    while (const auto line = next_line(rest)) {
      auto parsed = control::parse_audit_line(*line);
      if (parsed.ok()) {
        at = std::max(at, parsed->time);
        lines.push_back({at, *std::move(parsed)});
      } else {
        ++bad;
      }
    }
  }
  return bad;
}

/// Each line that is one, oldest first; says at the end how many were none.
int show(const Globals& /*globals*/, const Arguments& arguments) {
  uint64_t bad = 0;
  std::vector<ShownLine> lines;
  for (const Chain& chain : read_files(arguments.files).chains) bad += add_lines(chain, lines);
  std::stable_sort(lines.begin(), lines.end(), [](const ShownLine& a, const ShownLine& b) { return a.at < b.at; });
  for (const ShownLine& shown : lines) print_line(shown.line);
  if (bad == 0) return app::kExitOk;
  return report_failure(absl::DataLossError(
      absl::StrCat(bad, bad == 1 ? " line is" : " lines are", " not shown: skuactl audit verify FILE... says why")));
}

}  // namespace

void add_audit_commands(app::Program& program, const Globals& globals) {
  app::Command& group = program.add_command("audit", "The control plane's audit log: who changed the cluster.");

  const auto [verify_command, verified] =
      add_command(group, "verify", "Says whether the files are as they were written.", globals, verify);
  verify_command
      .add_string("contains", &verified.contains,
                  "The hash of a line that was noted elsewhere; without it, lines cut off at the end are not noticed.")
      .value_name("HASH");
  verify_command.add_positional_list("file", &verified.files, "The files of one log, in any order.");
  verify_command.example("skuactl audit verify /var/lib/skua/control/audit.jsonl*", "all files of a log");

  const auto [show_command, shown] = add_command(group, "show", "Prints the lines for people.", globals, show);
  show_command.add_positional_list("file", &shown.files, "The files of one log, in any order.");
  show_command.example("skuactl audit show /var/lib/skua/control/audit.jsonl*", "all lines, oldest first");
}

}  // namespace skua::kv::ctl
