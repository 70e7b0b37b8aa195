// Completion scripts from the declared options. Each finds the command chain that was typed so far
// ("table create"), answers for the option before the cursor when that takes a value, and otherwise
// offers the chain's commands and options.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "app/config_internal.h"

namespace skua::app {

namespace {

enum class ValueKind { kNone, kFile, kDirectory, kWords, kOther };

ValueKind value_kind(const OptionState& option) {
  if (option.type == OptionType::kBool) return ValueKind::kNone;
  if (!option.choices.empty()) return ValueKind::kWords;
  if (absl::EndsWith(option.value_name, "FILE")) return ValueKind::kFile;
  if (absl::EndsWith(option.value_name, "DIR")) return ValueKind::kDirectory;
  return ValueKind::kOther;
}

std::vector<const OptionState*> offered(const Command& command) {
  std::vector<const OptionState*> options;
  for (const Option* option : visible_options(command)) {
    if (!option->state().hidden) options.push_back(&option->state());
  }
  return options;
}

std::string function_name(const Command& root) {
  return absl::StrCat("_", absl::StrReplaceAll(root.state().name, {{"-", "_"}}));
}

std::string single_quoted(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"'", "'\\''"}}), "'");
}

// The `case` patterns, shared by bash and zsh, that extend `chain` by one typed word.
std::string chain_patterns(const Command& root) {
  std::vector<std::string> chains;
  for_each_command(root, [&](const Command& command) {
    if (&command != &root) chains.push_back(absl::StrCat("\" ", command.path(), "\""));
  });
  return absl::StrJoin(chains, "|");
}

std::string chain_case(const Command& command) {
  const std::string path = command.path();
  return absl::StrCat("\"", path.empty() ? "" : " ", path, "\"");
}

// Calls `emit` once for each option name of the program that takes a value.
void for_each_value_option(const Command& root, const std::function<void(const OptionState&)>& emit) {
  std::map<std::string, const OptionState*> seen;
  for_each_command(root, [&](const Command& command) {
    for (const auto& option : command.state().options) {
      const OptionState& state = option->state();
      if (state.hidden || value_kind(state) == ValueKind::kNone) continue;
      if (seen.emplace(state.name, &state).second) emit(state);
    }
  });
}

std::string bash_script(const Command& root) {
  const std::string function = function_name(root);
  std::string out = absl::StrCat("# bash completion for ", root.state().name, ": source this.\n", function, "() {\n",
                                 "  local cur=${COMP_WORDS[COMP_CWORD]} chain=\"\" i\n"
                                 "  COMPREPLY=()\n");
  if (const std::string patterns = chain_patterns(root); !patterns.empty()) {
    absl::StrAppend(&out, "  for ((i = 1; i < COMP_CWORD; i++)); do\n", "    case \"$chain ${COMP_WORDS[i]}\" in\n",
                    "      ", patterns, ") chain=\"$chain ${COMP_WORDS[i]}\" ;;\n", "    esac\n  done\n");
  }
  out += "  case \"${COMP_WORDS[COMP_CWORD - 1]}\" in\n";
  for_each_value_option(root, [&](const OptionState& option) {
    std::string reply;
    switch (value_kind(option)) {
      case ValueKind::kWords:
        reply = absl::StrCat("mapfile -t COMPREPLY < <(compgen -W \"", absl::StrJoin(option.choices, " "),
                             "\" -- \"$cur\"); ");
        break;
      case ValueKind::kFile: reply = "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); "; break;
      case ValueKind::kDirectory: reply = "mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); "; break;
      default: break;
    }
    absl::StrAppend(&out, "    --", option.name, ") ", reply, "return ;;\n");
  });
  out += "  esac\n  case \"$chain\" in\n";
  for_each_command(root, [&](const Command& command) {
    std::vector<std::string> words;
    for (const auto& inner : command.state().commands) words.push_back(inner->state().name);
    for (const OptionState* option : offered(command)) words.push_back("--" + option->name);
    absl::StrAppend(&out, "    ", chain_case(command), ") mapfile -t COMPREPLY < <(compgen -W \"",
                    absl::StrJoin(words, " "), "\" -- \"$cur\") ;;\n");
  });
  absl::StrAppend(&out, "  esac\n}\ncomplete -o filenames -F ", function, " ", root.state().name, "\n");
  return out;
}

std::string zsh_item(const std::string& word, std::string_view help) {
  const std::string escaped = absl::StrReplaceAll(absl::string_view(help.data(), help.size()), {{":", "\\:"}});
  return single_quoted(absl::StrCat(word, ":", escaped));
}

std::string zsh_script(const Command& root) {
  const std::string function = function_name(root);
  std::string out = absl::StrCat("#compdef ", root.state().name, "\n", function, "() {\n",
                                 "  local chain=\"\" word\n  local -a items\n");
  if (const std::string patterns = chain_patterns(root); !patterns.empty()) {
    absl::StrAppend(&out, "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n", "    case \"$chain $word\" in\n      ",
                    patterns, ") chain=\"$chain $word\" ;;\n    esac\n  done\n");
  }
  out += "  case \"${words[CURRENT-1]}\" in\n";
  for_each_value_option(root, [&](const OptionState& option) {
    std::string reply = "_message 'value'; ";
    switch (value_kind(option)) {
      case ValueKind::kWords: reply = absl::StrCat("compadd -- ", absl::StrJoin(option.choices, " "), "; "); break;
      case ValueKind::kFile: reply = "_files; "; break;
      case ValueKind::kDirectory: reply = "_files -/; "; break;
      default: break;
    }
    absl::StrAppend(&out, "    --", option.name, ") ", reply, "return ;;\n");
  });
  out += "  esac\n  case \"$chain\" in\n";
  for_each_command(root, [&](const Command& command) {
    std::vector<std::string> items;
    for (const auto& inner : command.state().commands) {
      items.push_back(zsh_item(inner->state().name, inner->state().summary));
    }
    for (const OptionState* option : offered(command)) {
      items.push_back(zsh_item("--" + option->name, option->help));
    }
    absl::StrAppend(&out, "    ", chain_case(command), ") items=(", absl::StrJoin(items, " "), ") ;;\n");
  });
  absl::StrAppend(&out, "  esac\n  _describe 'command or option' items\n}\ncompdef ", function, " ", root.state().name,
                  "\n");
  return out;
}

std::string fish_script(const Command& root) {
  const std::string& program = root.state().name;
  const std::string function = "__fish" + function_name(root) + "_chain";
  // The chain typed so far, for the conditions below.
  std::string out =
      absl::StrCat("# fish completion for ", program, ": source this.\nfunction ", function, "\n  set -l chain \"\"\n",
                   "  for word in (commandline -opc)[2..-1]\n", "    switch \"$chain $word\"\n");
  std::vector<std::string> chains;
  for_each_command(root, [&](const Command& command) {
    if (&command != &root) chains.push_back(absl::StrCat("' ", command.path(), "'"));
  });
  if (!chains.empty()) {
    absl::StrAppend(&out, "      case ", absl::StrJoin(chains, " "), "\n        set chain \"$chain $word\"\n");
  }
  absl::StrAppend(&out, "    end\n  end\n  test \"$chain\" = \"$argv[1]\"\nend\n", "complete -c ", program, " -f\n");
  for_each_command(root, [&](const Command& command) {
    const std::string path = command.path();
    const std::string condition =
        absl::StrCat("complete -c ", program, " -n ", "\"", function, " '", path.empty() ? "" : " ", path, "'\" ");
    for (const auto& inner : command.state().commands) {
      absl::StrAppend(&out, condition, "-a ", inner->state().name, " -d ", single_quoted(inner->state().summary), "\n");
    }
    for (const OptionState* option : offered(command)) {
      absl::StrAppend(&out, condition, "-l ", option->name);
      if (option->short_name != '\0') {
        absl::StrAppend(&out, " -s ", std::string(1, option->short_name));
      }
      switch (value_kind(*option)) {
        case ValueKind::kNone: break;
        case ValueKind::kWords:
          absl::StrAppend(&out, " -x -a ", single_quoted(absl::StrJoin(option->choices, " ")));
          break;
        case ValueKind::kFile: out += " -r -F"; break;
        case ValueKind::kDirectory: out += " -x -a '(__fish_complete_directories)'"; break;
        case ValueKind::kOther: out += " -x"; break;
      }
      absl::StrAppend(&out, " -d ", single_quoted(option->help), "\n");
    }
  });
  return out;
}

}  // namespace

std::string completion_script(const Command& root, std::string_view shell) {
  if (shell == "bash") return bash_script(root);
  if (shell == "zsh") return zsh_script(root);
  return fish_script(root);
}

}  // namespace skua::app
