// skuactl audit: reads the audit log of a control plane. Works on files and needs no cluster.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
};

/// What a look through the files found.
struct Result {
  AuditVerifier chain;
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

/// In the order of their lines, in whatever order they were named.
std::vector<LogFile> read_files(const std::vector<std::string>& paths) {
  std::vector<LogFile> files;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> bytes = app::read_file(path, kFileBytesMax);
    if (!bytes.ok()) app::fail_usage(kProgram, std::string(bytes.status().message()));
    LogFile& file = files.emplace_back(LogFile{path, *std::move(bytes)});
    std::string_view rest = file.bytes;
    const auto line = next_line(rest);
    const auto parsed = control::parse_audit_line(line.value_or(""));
    if (parsed.ok()) file.first = parsed->self.sequence;
  }
  std::stable_sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) { return a.first < b.first; });
  return files;
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

Result look_through(const Arguments& arguments) {
  Result result;
  const std::vector<LogFile> files = read_files(arguments.files);
  for (const LogFile& file : files) {
    if (!follow(file, &file == &files.back(), arguments.contains, result)) return result;
  }
  if (result.lines == 0) {
    result.bad_line = 1;
    result.trouble = absl::DataLossError("there is no line");
  }
  return result;
}

/// Why the files are not as the log was written; empty: they are.
std::string fault_of(const Arguments& arguments, const Result& result) {
  if (!result.trouble.ok()) {
    return absl::StrCat(result.bad_file, ", line ", result.bad_line, ": ", result.trouble.message());
  }
  if (arguments.contains.empty() || result.contains) return "";
  return absl::StrCat("no line has the hash ", printable(arguments.contains, 80),
                      ": lines were cut off, or all were written anew");
}

void print_verdict_json(const Result& result, const std::string& fault) {
  const auto& first = result.chain.first();
  print_json({{"intact", fault.empty()},
              {"fault", fault},
              {"lines", result.lines},
              {"first_seq", first ? first->self.sequence : 0},
              {"first_time", first ? first->time : ""},
              {"last_seq", result.chain.head().sequence},
              {"last_time", result.chain.last_time()},
              {"last_hash", result.chain.head().hash},
              {"torn_bytes", result.torn_bytes}});
}

void print_verdict(const Result& result) {
  const AuditLine& first = *result.chain.first();
  std::printf("%llu lines are as they were written, each following the one before it\n",
              static_cast<unsigned long long>(result.lines));
  std::printf("first   number %llu, %s\n", static_cast<unsigned long long>(first.self.sequence),
              printable(first.time).c_str());
  std::printf("last    number %llu, %s\n", static_cast<unsigned long long>(result.chain.head().sequence),
              printable(result.chain.last_time()).c_str());
  std::printf("hash    %s\n", result.chain.head().hash.c_str());
  if (first.self.sequence > 1) {
    std::printf("Numbers 1 to %llu are not in these files: old files are removed, so this may be all right.\n",
                static_cast<unsigned long long>(first.self.sequence - 1));
  }
  if (result.torn_bytes > 0) {
    std::printf("The last line is not complete (%zu bytes): a crash leaves that, or it is just being written.\n",
                result.torn_bytes);
  }
  std::printf(
      "Lines cut off at the end, and a log written anew as a whole, show only by a hash that was noted\n"
      "elsewhere: skuactl audit verify --contains HASH FILE...\n");
}

int verify(const Globals& globals, const Arguments& arguments) {
  const Result result = look_through(arguments);
  const std::string fault = fault_of(arguments, result);
  if (globals.json) {
    print_verdict_json(result, fault);
  } else if (fault.empty()) {
    print_verdict(result);
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
  std::printf("%s\n", printable(text).c_str());
}

/// Each line that is one, in the order of the files; says at the end how many were none.
int show(const Arguments& arguments) {
  uint64_t bad = 0;
  for (const LogFile& file : read_files(arguments.files)) {
    std::string_view rest = file.bytes;
    while (const auto line = next_line(rest)) {
      const auto parsed = control::parse_audit_line(*line);
      if (parsed.ok()) {
        print_line(*parsed);
      } else {
        ++bad;
      }
    }
  }
  if (bad == 0) return app::kExitOk;
  return report_failure(absl::DataLossError(
      absl::StrCat(bad, bad == 1 ? " line is" : " lines are", " not shown: skuactl audit verify FILE... says why")));
}

}  // namespace

void add_audit_commands(app::Program& program, const Globals& globals) {
  app::Command& group = program.add_command("audit", "The control plane's audit log: who changed the cluster.");

  app::Command& verify_command = group.add_command("verify", "Says whether the files are as they were written.");
  const auto verified = std::make_shared<Arguments>();
  verify_command
      .add_string("contains", &verified->contains,
                  "The hash of a line that was noted elsewhere; without it, lines cut off at the end are not noticed.")
      .value_name("HASH");
  verify_command.add_positional_list("file", &verified->files, "The files of one log, in any order.");
  verify_command.example("skuactl audit verify /var/lib/skua/control/audit.jsonl*", "all files of a log");
  verify_command.action([verified, &globals] { return verify(globals, *verified); });

  app::Command& show_command = group.add_command("show", "Prints the lines for people.");
  const auto shown = std::make_shared<Arguments>();
  show_command.add_positional_list("file", &shown->files, "The files of one log, in any order.");
  show_command.example("skuactl audit show /var/lib/skua/control/audit.jsonl*", "all lines, oldest first");
  show_command.action([shown] { return show(*shown); });
}

}  // namespace skua::kv::ctl
