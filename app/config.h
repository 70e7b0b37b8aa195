// Configuration: one name, three forms.
//
//   --data-dir DIR          flag
//   SKUA_DATA_DIR=DIR       environment          flag > environment > file > default
//   data_dir = "DIR"        TOML, --config FILE
//
// A program declares its options once, each bound to a variable whose value is the default; from
// the declaration come parsing, range checks, --help, --print-config (each value and where it came
// from),
// --completion bash|zsh|fish, --man and --version. Whatever is not declared is an error that names the
// nearest declared name, printed as exactly one line, with exit code 2:
//
//   skuad: unknown option --data-dri; did you mean --data-dir? (see skuad --help)
//
// A program may have subcommands, to any depth, each with options and positional arguments of its
// own; options of an outer command may follow an inner one (`skuactl get KEY --output json`). The
// option --shards of `skuactl table create` is `shards` under `[table.create]` in the file and
// SKUA_TABLE_CREATE_SHARDS in the environment.
//
//   int main(int argc, char** argv) {
//     Config config;
//     skua::app::Program program({.name = "skuad", .summary = "Skua storage node"});
//     program.add_string("data-dir", &config.data_dir, "Where the node keeps its data.")
//         .value_name("DIR").required();
//     program.add_int("workers", &config.workers, "Polling threads.").range(1, 64);
//     program.example("skuad --data-dir /var/lib/skua", "a node that finds control on this
//     machine"); program.parse_or_exit(argc, argv);
//
// Only programs' mains (and their private helper files) include this.
#ifndef SKUA_APP_CONFIG_H_
#define SKUA_APP_CONFIG_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "app/option.h"
#include "rpc/base/clock.h"

namespace skua::app {

struct Arguments;
struct CommandState;

template <typename T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

/// A program or one of its subcommands: options, positional arguments, deeper commands. Owned by
/// its parent; references stay valid as long as the Program. Thread: one.
class Command {
 public:
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Options. `name` as after the dashes, lower case with dashes ("data-dir"); `help` is a sentence.
  // A name that is declared twice is a programmer error (SKUA_CHECK).

  Option& add_string(std::string name, std::string* target, std::string help);
  /// `--verbose`, `--verbose=false`, or `--no-verbose`.
  Option& add_bool(std::string name, bool* target, std::string help);
  /// Any integer type; its own limits are the range unless a narrower one is given.
  template <Integer T>
  Option& add_int(const std::string& name, T* target, const std::string& help) {
    return add_integer<T>(name, OptionType::kInt, target, help);
  }
  Option& add_double(std::string name, double* target, std::string help);
  /// 500ms, 2s, 0.
  Option& add_duration(const std::string& name, DurationNs* target, const std::string& help);
  /// 64MiB, 4096.
  template <Integer T>
  Option& add_size(const std::string& name, T* target, const std::string& help) {
    return add_integer<T>(name, OptionType::kSize, target, help);
  }
  /// Given several times, or once with commas; in the file an array of strings. Each origin
  /// replaces the whole list of a lower one.
  Option& add_list(std::string name, std::vector<std::string>* target, std::string help);
  /// One of a few words, each standing for a value of `T` (usually an enum).
  template <typename T>
  Option& add_choice(const std::string& name, T* target, const std::vector<std::pair<std::string, T>>& words,
                     const std::string& help) {
    std::vector<std::string> names;
    names.reserve(words.size());
    for (const auto& [word, value] : words) names.push_back(word);
    return add_choice_texts(
        name, std::move(names),
        [target, words](const std::string& text) {
          for (const auto& [word, value] : words) {
            if (word == text) *target = value;
          }
        },
        [target, words] {
          for (const auto& [word, value] : words) {
            if (value == *target) return word;
          }
          return std::string();
        },
        help);
  }

  // Positional arguments, in order of declaration. Required unless .optional().

  Option& add_positional(std::string name, std::string* target, std::string help);
  /// All that remain; the last one declared. Required means: at least one.
  Option& add_positional_list(std::string name, std::vector<std::string>* target, std::string help);

  /// A subcommand. `summary` is one line for the list in the parent's help.
  Command& add_command(std::string name, std::string summary);
  /// Paragraphs for help, under the summary. Separated by empty lines.
  Command& description(std::string text);
  /// A line for help's list of examples, and what it does.
  Command& example(std::string command_line, std::string what);
  /// What Program::run() calls when this command was selected; returns the exit code. A command
  /// with subcommands but without an action must be given one of them.
  Command& action(std::function<int()> run);

  /// The words after the program's name: "table create"; empty for the program itself.
  [[nodiscard]] std::string path() const;

  /// For the implementation.
  [[nodiscard]] CommandState& state() const { return *state_; }

 protected:
  explicit Command(std::unique_ptr<CommandState> state);

 private:
  Option& add_integer_texts(std::string name, OptionType type, int64_t low, int64_t high,
                            std::function<void(int64_t)> set, std::function<int64_t()> get, std::string help);
  Option& add_choice_texts(std::string name, std::vector<std::string> words,
                           std::function<void(const std::string&)> set, std::function<std::string()> get,
                           std::string help);

  template <Integer T>
  Option& add_integer(const std::string& name, OptionType type, T* target, const std::string& help) {
    constexpr int64_t kLow = std::same_as<T, int64_t>    ? std::numeric_limits<int64_t>::min()
                             : std::unsigned_integral<T> ? 0
                                                         : static_cast<int64_t>(std::numeric_limits<T>::min());
    constexpr int64_t kHigh = sizeof(T) < sizeof(int64_t) ? static_cast<int64_t>(std::numeric_limits<T>::max())
                                                          : std::numeric_limits<int64_t>::max();
    return add_integer_texts(
        name, type, kLow, kHigh, [target](int64_t value) { *target = static_cast<T>(value); },
        [target] { return static_cast<int64_t>(*target); }, help);
  }

  std::unique_ptr<CommandState> state_;
};

struct ProgramInfo {
  std::string name;
  /// One line.
  std::string summary;
  /// Paragraphs, optional.
  std::string description = "";
  /// Of the manual: 1 commands of users, 8 servers.
  int manual_section = 1;
};

/// What parsing came to. Either the program goes on, or it prints and ends.
struct ParseOutcome {
  bool go_on = false;
  int exit_code = 0;
  /// For stdout: help, version, completion script, manual page, configuration.
  std::string out = "";
  /// For stderr: one line with its line break, or nothing.
  std::string err = "";
  /// For stderr, before `err`, whether the program goes on or not: lines.
  std::string warnings = "";
};

/// Names and values of environment variables.
using Environment = std::map<std::string, std::string>;

class Program : public Command {
 public:
  explicit Program(const ProgramInfo& info);

  /// For programs with many options that few need: the help shows those that `declare` adds to the program as one line,
  /// "and 9 options of WHAT: PROGRAM --help-all", and the help of a command shows its own options and examples first.
  /// Declares --help-all. Completion, manual page and configuration have all options. Call it once at most.
  void fold_options(std::string what, const std::function<void()>& declare);

  /// What `PROGRAM PATH --help` prints; `path`: the words of a command, or none. INVALID_ARGUMENT: there is no such
  /// command.
  [[nodiscard]] absl::StatusOr<std::string> help_of(const std::vector<std::string>& path) const;

  /// Parses `arguments` (without the program's name) and sets the bound variables. Reads the file
  /// that --config names; prints nothing. Call once.
  [[nodiscard]] ParseOutcome parse(const std::vector<std::string>& arguments, const Environment& environment);

  /// parse() with the process's arguments and environment; prints and exits unless the program is
  /// to go on. Call it before threads are started.
  void parse_or_exit(int argc, const char* const* argv);
  /// The same, with these arguments (without the program's name).
  void parse_or_exit(const std::vector<std::string>& arguments);

  /// The command that was selected by parse(); the program itself when it has no subcommands.
  [[nodiscard]] const Command& selected() const;

  /// Calls the selected command's action and returns its exit code.
  [[nodiscard]] int run() const;

  /// What --print-config prints: valid TOML, one line for each value, with its origin as a comment.
  /// For a log line at start, or a doctor's report.
  [[nodiscard]] std::string configuration_text() const;

 private:
  void declare_standard_options();
  /// From the file, the environment and the flags, in this order.
  [[nodiscard]] absl::Status apply_origins(const Arguments& scanned, const Environment& environment,
                                           std::vector<std::string>& warnings);

  std::string config_file_;
  std::string completion_shell_;
  const int manual_section_;
  bool print_config_ = false;
  bool man_ = false;
  bool help_ = false;
  bool help_all_ = false;
  bool version_ = false;
  const Command* selected_;
};

}  // namespace skua::app

#endif  // SKUA_APP_CONFIG_H_
