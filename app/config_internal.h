// What Option and Command hold, and the steps of parsing. For app/*.cc only.
#ifndef SKUA_APP_CONFIG_INTERNAL_H_
#define SKUA_APP_CONFIG_INTERNAL_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "app/config.h"

namespace skua::app {

struct OptionState {
  std::string name;  // as after the two dashes: data-dir
  OptionType type = OptionType::kString;
  std::string help;
  std::string value_name;
  std::string unit;
  char short_name = '\0';
  bool required = false;
  bool positional = false;
  bool hidden = false;
  bool flag_only = false;
  bool secret = false;
  bool standard = false;  // --help and the like, declared by Program itself
  bool folded = false;    // one line of the help stands for all of these
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  bool ranged = false;  // the bounds are more than the limits of the bound variable's type
  double low_double = -std::numeric_limits<double>::infinity();
  double high_double = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices;
  std::function<std::optional<std::string>(const std::string&)> complaint;

  // One of these, by type, takes the parsed value; `texts` gives the current value back as text:
  // one for most, any number for a list.
  std::function<void(const std::string&)> set_string;  // kString, kChoice
  std::function<void(bool)> set_bool;
  std::function<void(int64_t)> set_int;  // kInt, kDuration, kSize
  std::function<void(double)> set_double;
  std::function<void(std::vector<std::string>)> set_list;
  std::function<std::vector<std::string>()> texts;

  const Command* owner = nullptr;
  std::vector<std::string> default_texts;
  Origin origin = Origin::kDefault;
  std::string source;  // the file or the environment variable that the value came from
};

struct CommandState {
  struct Example {
    std::string command_line;
    std::string what;
  };

  Command* parent = nullptr;
  std::string name;
  std::string summary;
  std::string description;
  std::string folded_what;  // of a program: what its folded options are of; empty: there are none
  std::vector<Example> examples;
  std::vector<std::unique_ptr<Option>> options;
  std::vector<std::unique_ptr<Option>> positionals;
  std::vector<std::unique_ptr<Command>> commands;
  std::function<int()> action;
};

// ---- option.cc

/// Parses and checks `texts` (one; any number for a list; a list's items are split at commas by the
/// caller) and sets the variable. INVALID_ARGUMENT without the option's name: "must be 1 to 64".
[[nodiscard]] absl::Status assign(OptionState& option, const std::vector<std::string>& texts, Origin origin,
                                  std::string source);
/// "1 to 64", "at least 1", "at most 4KiB"; empty when any number will do.
[[nodiscard]] std::string range_text(const OptionState& option);
/// What stands for the value in help: DIR, N, DURATION; KEY for the positional argument `key`.
[[nodiscard]] std::string value_name(const OptionState& option);
/// `a,b,c` cut at commas; empty pieces are dropped.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text);

// ---- command.cc

/// The command's own options and those of the commands around it, innermost first.
[[nodiscard]] std::vector<Option*> visible_options(const Command& command);
[[nodiscard]] Command* find_command(const Command& parent, std::string_view name);
/// "skuactl table create".
[[nodiscard]] std::string command_line_name(const Command& command);
/// SKUA_TABLE_CREATE_SHARDS.
[[nodiscard]] std::string environment_name(const OptionState& option);
/// data_dir: the last part of the key in the file; the parts before are the command's path.
[[nodiscard]] std::string file_key(const OptionState& option);
/// Calls `visit` for `command` and everything below it, parents first.
void for_each_command(const Command& command, const std::function<void(const Command&)>& visit);

// ---- arguments.cc

/// The command line taken apart; nothing is assigned yet.
struct Arguments {
  const Command* selected = nullptr;
  /// In order of appearance; a list may appear several times.
  std::vector<std::pair<Option*, std::vector<std::string>>> flags;
  std::vector<std::string> positionals;
  /// What was wrong first, if anything, without the program's name; the rest was still looked at.
  absl::Status status;
};

[[nodiscard]] Arguments scan_arguments(const Command& root, const std::vector<std::string>& arguments);

// ---- config_file.cc, environment.cc. Errors name the file and line, or the variable.

/// `named_by`: what named the file, --config or SKUA_CONFIG.
[[nodiscard]] absl::Status apply_config_file(const Command& root, const std::string& path, const std::string& named_by);
/// Adds to `warnings` a sentence for each variable that looks like ours and is nobody's.
[[nodiscard]] absl::Status apply_environment(const Command& root, const Environment& environment,
                                             std::vector<std::string>& warnings);
/// `text` as a TOML string with its quotes.
[[nodiscard]] std::string toml_quoted(std::string_view text);

// ---- help_text.cc, completion.cc, man_page.cc

/// The option's sentence with its range and its default.
[[nodiscard]] std::string option_text(const OptionState& option);
/// A switch that is on unless it is turned off: --no-NAME.
[[nodiscard]] bool is_on_by_default(const OptionState& option);
/// `all`: also the options that are folded, and those of the program in the help of a command.
[[nodiscard]] std::string help_text(const Command& command, bool all);
/// `shell` is bash, zsh or fish.
[[nodiscard]] std::string completion_script(const Command& root, std::string_view shell);
/// In mdoc. `section` of the manual: 1 commands, 8 servers.
[[nodiscard]] std::string man_page(const Command& root, int section);

}  // namespace skua::app

#endif  // SKUA_APP_CONFIG_INTERNAL_H_
