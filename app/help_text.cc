#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "app/config_internal.h"

namespace skua::app {

namespace {

constexpr size_t kWidth = 100;
constexpr size_t kTextColumn = 30;

// Fills `text` into lines between `indent` and kWidth; the first one starts at column `at`.
void append_wrapped(std::string& out, std::string_view text, size_t at, size_t indent) {
  bool first_word = true;
  for (absl::string_view word : absl::StrSplit(absl::string_view(text.data(), text.size()), ' ', absl::SkipEmpty())) {
    if (!first_word && at + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      at = indent;
      first_word = true;
    }
    if (!first_word) {
      out += ' ';
      ++at;
    }
    absl::StrAppend(&out, word);
    at += word.size();
    first_word = false;
  }
  out += '\n';
}

// Two columns: `left` and the text that explains it.
void append_row(std::string& out, const std::string& left, std::string_view text) {
  absl::StrAppend(&out, "  ", left);
  size_t at = 2 + left.size();
  if (at + 2 > kTextColumn) {
    out += '\n';
    at = 0;
  }
  out.append(kTextColumn - at, ' ');
  append_wrapped(out, text, kTextColumn, kTextColumn);
}

std::string default_text(const OptionState& option) {
  if (option.required) return "required";
  if (option.type == OptionType::kBool && option.default_texts[0] == "false") return "";
  std::string text = absl::StrJoin(option.default_texts, ",");
  if (text.empty()) return "";
  if (!option.unit.empty()) {
    std::string unit = option.unit;
    if (text == "1" && unit.back() == 's') unit.pop_back();
    absl::StrAppend(&text, " ", unit);
  }
  return absl::StrCat("default ", text);
}

std::string option_left(const OptionState& option) {
  std::string left = option.short_name == '\0' ? "" : absl::StrCat("-", std::string(1, option.short_name), ", ");
  // What is on by default is given to be turned off.
  absl::StrAppend(&left, is_on_by_default(option) ? "--[no-]" : "--", option.name);
  const std::string value = value_name(option);
  if (!value.empty()) absl::StrAppend(&left, " ", value);
  return left;
}

void append_options(std::string& out, const Command& command, const std::string& title, bool standard,
                    bool folds = false) {
  bool titled = false;
  for (const auto& option : command.state().options) {
    const OptionState& state = option->state();
    if (state.hidden || state.standard != standard || (folds && state.folded)) continue;
    if (!titled) absl::StrAppend(&out, "\n", title, ":\n");
    titled = true;
    append_row(out, option_left(state), option_text(state));
  }
}

size_t count_options(const Command& command, bool standard) {
  return static_cast<size_t>(std::ranges::count_if(command.state().options, [&](const auto& option) {
    const OptionState& state = option->state();
    return !state.hidden && (standard ? state.standard : state.folded);
  }));
}

// One line for the options of the program that are left out.
void append_folded(std::string& out, const Command& root) {
  absl::StrAppend(&out, "  and ", count_options(root, false), " options of ", root.state().folded_what, ": ",
                  root.state().name, " --help-all\n");
}

std::string usage(const Command& command) {
  std::string text = absl::StrCat("usage: ", command_line_name(command), " [options]");
  if (!command.state().commands.empty()) text += command.state().action ? " [COMMAND]" : " COMMAND";
  for (const auto& positional : command.state().positionals) {
    const OptionState& state = positional->state();
    std::string word = value_name(state);
    if (state.type == OptionType::kList) word += "...";
    absl::StrAppend(&text, " ", state.required ? word : absl::StrCat("[", word, "]"));
  }
  return text + "\n";
}

void append_commands(std::string& out, const Command& command) {
  if (command.state().commands.empty()) return;
  out += "\ncommands:\n";
  for (const auto& inner : command.state().commands) {
    append_row(out, inner->state().name, inner->state().summary);
  }
  absl::StrAppend(&out, "\nSee `", command_line_name(command), " COMMAND --help` for each.\n");
}

void append_examples(std::string& out, const Command& command) {
  if (command.state().examples.empty()) return;
  out += "\nexamples:\n";
  for (const auto& example : command.state().examples) {
    absl::StrAppend(&out, "  ", example.command_line, "\n");
    if (example.what.empty()) continue;
    out += "      ";
    append_wrapped(out, example.what, 6, 6);
  }
}

void append_description(std::string& out, const std::string& description) {
  if (description.empty()) return;
  for (absl::string_view paragraph : absl::StrSplit(description, "\n\n")) {
    out += '\n';
    append_wrapped(out, absl::StrJoin(absl::StrSplit(paragraph, '\n'), " "), 0, 0);
  }
}

}  // namespace

bool is_on_by_default(const OptionState& option) {
  return option.type == OptionType::kBool && option.default_texts[0] == "true";
}

std::string option_text(const OptionState& option) {
  std::vector<std::string> facts;
  if (std::string range = range_text(option); option.ranged && !range.empty()) facts.push_back(std::move(range));
  if (std::string text = default_text(option); !text.empty() && !option.standard) {
    facts.push_back(std::move(text));
  }
  if (option.type == OptionType::kList) facts.emplace_back("may be repeated");
  return absl::StrCat(option.help, facts.empty() ? "" : " (", absl::StrJoin(facts, ", "), facts.empty() ? "" : ")");
}

std::string help_text(const Command& command, bool all) {
  const CommandState& state = command.state();
  std::string out = absl::StrCat(command_line_name(command), ": ", state.summary, "\n\n");
  out += usage(command);
  append_description(out, state.description);
  append_commands(out, command);
  if (!state.positionals.empty()) {
    out += "\narguments:\n";
    for (const auto& positional : state.positionals) {
      append_row(out, value_name(positional->state()), positional->state().help);
    }
  }
  const Command* root = &command;
  while (root->state().parent != nullptr) root = root->state().parent;
  const bool inner = root != &command;
  const bool folds = !all && !root->state().folded_what.empty();
  append_options(out, command, "options", false, folds);
  if (inner && folds) append_examples(out, command);
  for (const Command* outer = command.state().parent; outer != nullptr; outer = outer->state().parent) {
    append_options(out, *outer, absl::StrCat("options of ", command_line_name(*outer)), false, folds);
  }
  if (folds) append_folded(out, *root);
  if (inner && folds) {
    absl::StrAppend(&out, "  and ", count_options(*root, true), " general options: ", root->state().name, " --help\n");
  } else {
    append_options(out, *root, "general options", true);
    append_examples(out, command);
  }
  absl::StrAppend(&out, "\nEach option is also an environment variable (--some-name is SKUA_",
                  inner ? absl::AsciiStrToUpper(absl::StrReplaceAll(command.path(), {{" ", "_"}, {"-", "_"}})) + "_"
                        : std::string(),
                  "SOME_NAME) and a key in the --config file (some_name");
  if (inner) {
    absl::StrAppend(&out, " under [", absl::StrReplaceAll(command.path(), {{" ", "."}}), "]");
  }
  out += ").\nA flag beats the environment, which beats the file, which beats the default.\n";
  return out;
}

}  // namespace skua::app
