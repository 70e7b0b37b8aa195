#include "app/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "app/config_internal.h"
#include "app/exit.h"
#include "app/value_text.h"
#include "app/version.h"
#include "rpc/base/check.h"

extern char** environ;

namespace skua::app {

namespace {

std::unique_ptr<CommandState> root_state(const ProgramInfo& info) {
  auto state = std::make_unique<CommandState>();
  state->name = info.name;
  state->summary = info.summary;
  state->description = info.description;
  return state;
}

// What is known about a program before its values are: what the standard options ask for.
const std::string* flag_value(const Arguments& arguments, std::string_view name) {
  for (const auto& [option, texts] : arguments.flags) {
    if (option->state().standard && option->state().name == name) return &texts[0];
  }
  return nullptr;
}

/// Of --help, --help-all and --version, which are asked before all else is judged.
bool asks_for(const Arguments& arguments, std::string_view name) {
  const std::string* text = flag_value(arguments, name);
  return text != nullptr && parse_bool(*text).value_or(false);
}

absl::Status apply_flags(const Arguments& arguments) {
  for (const auto& [option, texts] : arguments.flags) {
    OptionState& state = option->state();
    absl::Status status = assign(state, texts, Origin::kFlag, "--" + state.name);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", state.name, " ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status apply_positionals(const Arguments& arguments) {
  const auto& declared = arguments.selected->state().positionals;
  size_t next = 0;
  for (const auto& option : declared) {
    OptionState& state = option->state();
    const size_t left = arguments.positionals.size() - next;
    if (left == 0) {
      if (!state.required) continue;
      return absl::InvalidArgumentError(absl::StrCat("missing argument ", value_name(state)));
    }
    const size_t taken = state.type == OptionType::kList ? left : 1;
    const auto from = arguments.positionals.begin() + static_cast<std::ptrdiff_t>(next);
    const std::vector<std::string> texts(from, from + static_cast<std::ptrdiff_t>(taken));
    next += taken;
    absl::Status status = assign(state, texts, Origin::kFlag, "argument");
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(value_name(state), " ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status check_command(const Command& command) {
  if (command.state().commands.empty() || command.state().action) return absl::OkStatus();
  std::vector<std::string> names;
  for (const auto& inner : command.state().commands) names.push_back(inner->state().name);
  return absl::InvalidArgumentError(absl::StrCat("a command is missing: one of ", absl::StrJoin(names, ", ")));
}

std::string origin_text(const OptionState& state) {
  switch (state.origin) {
    case Origin::kDefault: return state.required ? "not set, but required" : "default";
    case Origin::kFile: return absl::StrCat("file ", state.source);
    case Origin::kEnvironment: return absl::StrCat("environment ", state.source);
    case Origin::kFlag: return absl::StrCat("flag ", state.source);
  }
  return "";
}

absl::Status check_required(const Command& command) {
  for (const Option* option : visible_options(command)) {
    const OptionState& state = option->state();
    if (!state.required) continue;
    const std::string flag = absl::StrCat("--", state.name, " ", value_name(state));
    if (option->is_set()) {
      // As an unset shell variable leaves it: --data-dir "$DIR".
      if (state.type != OptionType::kString || !state.texts()[0].empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(flag, " is empty (", origin_text(state), ")"));
    }
    if (state.flag_only) return absl::InvalidArgumentError(absl::StrCat(flag, " is required"));
    return absl::InvalidArgumentError(absl::StrCat(flag, " is required: as a flag, as ", environment_name(state),
                                                   ", or as ", file_key(state), " in the --config file"));
  }
  return absl::OkStatus();
}

std::string toml_value(const OptionState& state) {
  std::vector<std::string> texts = state.texts();
  const bool bare =
      state.type == OptionType::kBool || state.type == OptionType::kInt || state.type == OptionType::kDouble;
  if (bare) return texts[0];
  for (std::string& text : texts) text = toml_quoted(text);
  if (state.type == OptionType::kList) return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
  return texts[0];
}

void append_configuration(const Command& command, std::string& text) {
  std::string lines;
  for (const auto& option : command.state().options) {
    const OptionState& state = option->state();
    if (state.flag_only || state.standard || state.hidden) continue;
    // TOML has no null: what is required and not set stays a comment.
    absl::StrAppend(&lines, state.required && !option->is_set() ? "# " : "", file_key(state), " = ", toml_value(state),
                    "  # ", origin_text(state), "\n");
  }
  if (lines.empty()) return;
  const std::string path = absl::StrReplaceAll(command.path(), {{" ", "."}});
  if (!path.empty()) absl::StrAppend(&text, text.empty() ? "[" : "\n[", path, "]\n");
  text += lines;
}

bool is_around(const Command& outer, const Command& inner) {
  for (const Command* at = &inner; at != nullptr; at = at->state().parent) {
    if (at == &outer) return true;
  }
  return false;
}

}  // namespace

Program::Program(const ProgramInfo& info)
    : Command(root_state(info)), manual_section_(info.manual_section), selected_(this) {
  declare_standard_options();
}

void Program::declare_standard_options() {
  add_string("config", &config_file_, "Read the configuration from this TOML file.").value_name("FILE");
  add_bool("print-config", &print_config_, "Print every value and where it came from (as valid TOML), and exit.")
      .flag_only();
  add_string("completion", &completion_shell_, "Print a completion script for this shell, and exit.")
      .one_of({"bash", "zsh", "fish"})
      .flag_only();
  add_bool("man", &man_, "Print the manual page (for man -l), and exit.").flag_only();
  add_bool("help", &help_, "Print this help and exit.").short_name('h').flag_only();
  add_bool("version", &version_, "Print the version and exit.").flag_only();
  for (const auto& option : state().options) option->state().standard = true;
}

void Program::fold_options(std::string what, const std::function<void()>& declare) {
  SKUA_CHECK(state().folded_what.empty(), "options are folded twice");
  state().folded_what = std::move(what);
  const size_t before = state().options.size();
  declare();
  for (size_t i = before; i < state().options.size(); ++i) state().options[i]->state().folded = true;
  add_bool("help-all", &help_all_, "Print the help with all options and exit.").flag_only();
  state().options.back()->state().standard = true;
}

absl::StatusOr<std::string> Program::help_of(const std::vector<std::string>& path) const {
  const Command* command = this;
  for (const std::string& word : path) {
    const Command* const inner = find_command(*command, word);
    if (inner == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(command_line_name(*command), " has no command ", word));
    }
    command = inner;
  }
  return help_text(*command, false);
}

ParseOutcome Program::parse(const std::vector<std::string>& arguments, const Environment& environment) {
  const Arguments scanned = scan_arguments(*this, arguments);
  selected_ = scanned.selected;

  std::vector<std::string> warnings;
  const auto warning_lines = [&] {
    std::string lines;
    for (const std::string& warning : warnings) lines += error_line(state().name, "warning: " + warning);
    return lines;
  };
  const auto refuse = [&](const absl::Status& status) {
    const std::string message =
        absl::StrCat(std::string(status.message()), " (see ", command_line_name(*selected_), " --help)");
    return ParseOutcome{.exit_code = kExitUsage, .err = error_line(state().name, message), .warnings = warning_lines()};
  };

  const bool wants_all = asks_for(scanned, "help-all");
  if (wants_all || asks_for(scanned, "help")) return {.out = help_text(*selected_, wants_all)};
  if (asks_for(scanned, "version")) {
    return {.out = absl::StrCat(state().name, " ", std::string(version()), "\n")};
  }
  if (!scanned.status.ok()) return refuse(scanned.status);

  if (absl::Status status = apply_origins(scanned, environment, warnings); !status.ok()) return refuse(status);

  ParseOutcome outcome{.warnings = warning_lines()};
  if (!completion_shell_.empty()) {
    outcome.out = completion_script(*this, completion_shell_);
    return outcome;
  }
  if (man_) {
    outcome.out = man_page(*this, manual_section_);
    return outcome;
  }
  if (print_config_) {
    outcome.out = configuration_text();
    return outcome;
  }
  if (absl::Status status = check_command(*selected_); !status.ok()) return refuse(status);
  if (absl::Status status = apply_positionals(scanned); !status.ok()) return refuse(status);
  if (absl::Status status = check_required(*selected_); !status.ok()) return refuse(status);
  outcome.go_on = true;
  return outcome;
}

namespace {

/// The file has a secret, and others than its owner and group may read it.
void warn_of_open_secrets(const Program& program, const std::string& file, std::vector<std::string>& warnings) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0 || (about.st_mode & S_IROTH) == 0) return;
  for_each_command(program, [&](const Command& command) {
    for (const auto& option : command.state().options) {
      const OptionState& state = option->state();
      if (!state.secret || state.origin != Origin::kFile) continue;
      warnings.push_back(absl::StrCat(file, " has the secret of --", state.name,
                                      ", and every user of this machine may read it: chmod 600 ", file));
    }
  });
}

}  // namespace

absl::Status Program::apply_origins(const Arguments& scanned, const Environment& environment,
                                    std::vector<std::string>& warnings) {
  std::string file;
  std::string named_by = "SKUA_CONFIG";
  if (const auto found = environment.find(named_by); found != environment.end()) file = found->second;
  if (const std::string* flag = flag_value(scanned, "config")) {
    if (flag->empty()) return absl::InvalidArgumentError("--config is empty: name a file");
    file = *flag;
    named_by = "--config";
  }
  if (!file.empty()) {
    if (absl::Status status = apply_config_file(*this, file, named_by); !status.ok()) return status;
    warn_of_open_secrets(*this, file, warnings);
  }
  if (absl::Status status = apply_environment(*this, environment, warnings); !status.ok()) return status;
  return apply_flags(scanned);
}

void Program::parse_or_exit(int argc, const char* const* argv) {
  parse_or_exit(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}

void Program::parse_or_exit(const std::vector<std::string>& arguments) {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  const ParseOutcome outcome = parse(arguments, environment);
  std::fputs(outcome.warnings.c_str(), stderr);
  if (outcome.go_on) return;
  std::fputs(outcome.out.c_str(), stdout);
  std::fputs(outcome.err.c_str(), stderr);
  const int code = outcome.exit_code == kExitOk ? finish_output(state().name) : outcome.exit_code;
  std::exit(code);  // NOLINT(concurrency-mt-unsafe): no threads yet, by contract
}

const Command& Program::selected() const {
  return *selected_;
}

int Program::run() const {
  SKUA_CHECK(selected_->state().action, "the selected command was declared without an action");
  return selected_->state().action();
}

std::string Program::configuration_text() const {
  std::string text;
  for_each_command(*this, [&](const Command& command) {
    // With a command selected, only what concerns it.
    if (selected_ != this && !is_around(command, *selected_)) return;
    append_configuration(command, text);
  });
  return text;
}

}  // namespace skua::app
