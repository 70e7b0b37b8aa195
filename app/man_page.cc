// Manual pages from the declared options, in the language mdoc, which mandoc and groff read. A page has one list of
// options for the program and a subsection for each of its commands.
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "app/config_internal.h"
#include "app/version.h"

namespace skua::app {

namespace {

/// A word as mdoc takes it anywhere: no escape, no request, no macro, no punctuation with a meaning.
std::string escaped(absl::string_view word) {
  return absl::StrReplaceAll(word, {{"\\", "\\e"}, {"\"", "\\(dq"}, {"-", "\\-"}, {"`", "\\(ga"}, {"'", "\\(aq"}});
}

/// An argument of a macro. \& keeps a word that is named as a macro, such as No, from being one.
std::string argument(absl::string_view text) {
  return absl::StrCat("\"\\&", escaped(text), "\"");
}

bool ends_sentence(absl::string_view word) {
  while (!word.empty() && (word.back() == ')' || word.back() == '"' || word.back() == '`')) word.remove_suffix(1);
  return !word.empty() && (word.back() == '.' || word.back() == '!' || word.back() == '?');
}

/// Text lines of at most 80 columns; each sentence begins a line, as mdoc wants.
void append_text(std::string& out, absl::string_view text) {
  constexpr size_t kColumns = 80;
  std::string line;
  const auto flush = [&] {
    if (line.empty()) return;
    // A line that begins with one of these would be a request.
    const bool is_request = line.front() == '.' || line.front() == '\'';
    absl::StrAppend(&out, is_request ? "\\&" : "", line, "\n");
    line.clear();
  };
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    const std::string safe = escaped(word);
    if (line.size() + 1 + safe.size() > kColumns) flush();
    absl::StrAppend(&line, line.empty() ? "" : " ", safe);
    if (ends_sentence(word)) flush();
  }
  flush();
}

void append_paragraphs(std::string& out, const std::string& text) {
  bool is_first = true;
  for (const absl::string_view paragraph : absl::StrSplit(text, "\n\n", absl::SkipEmpty())) {
    if (!is_first) out += ".Pp\n";
    append_text(out, paragraph);
    is_first = false;
  }
}

void append_option(std::string& out, const OptionState& option) {
  out += ".It ";
  if (option.short_name != '\0') absl::StrAppend(&out, "Fl ", std::string(1, option.short_name), " , ");
  absl::StrAppend(&out, "Fl ", escaped(absl::StrCat(is_on_by_default(option) ? "-[no-]" : "-", option.name)));
  if (const std::string value = value_name(option); !value.empty()) {
    absl::StrAppend(&out, " Ar ", argument(value));
  }
  out += "\n";
  append_text(out, option_text(option));
}

std::vector<const OptionState*> shown_options(const Command& command, bool standard) {
  std::vector<const OptionState*> shown;
  for (const auto& option : command.state().options) {
    const OptionState& state = option->state();
    if (!state.hidden && state.standard == standard) shown.push_back(&state);
  }
  return shown;
}

void append_options(std::string& out, const std::vector<const OptionState*>& options) {
  if (options.empty()) return;
  out += ".Bl -tag -width Ds\n";
  for (const OptionState* const option : options) append_option(out, *option);
  out += ".El\n";
}

void append_positionals(std::string& out, const Command& command) {
  if (command.state().positionals.empty()) return;
  out += ".Bl -tag -width Ds\n";
  for (const auto& positional : command.state().positionals) {
    absl::StrAppend(&out, ".It Ar ", argument(value_name(positional->state())), "\n");
    append_text(out, option_text(positional->state()));
  }
  out += ".El\n";
}

void append_synopsis_of_arguments(std::string& out, const Command& command) {
  for (const auto& positional : command.state().positionals) {
    const OptionState& state = positional->state();
    absl::StrAppend(&out, state.required ? ".Ar " : ".Op Ar ", argument(value_name(state)),
                    state.type == OptionType::kList ? " ..." : "", "\n");
  }
}

void append_example_lines(std::string& out, const Command& command) {
  for (const CommandState::Example& example : command.state().examples) {
    absl::StrAppend(&out, ".Pp\n");
    append_text(out, absl::StrCat(example.what, ":"));
    absl::StrAppend(&out, ".Dl ", argument(example.command_line), "\n");
  }
}

/// The head, and what the program is.
void append_head(std::string& out, const Command& root, int section) {
  const CommandState& state = root.state();
  absl::string_view summary = state.summary;
  while (!summary.empty() && summary.back() == '.') summary.remove_suffix(1);
  absl::StrAppend(&out, ".\\\" Made by ", escaped(state.name), " --man from its options.\n");
  absl::StrAppend(&out, ".Dd ", std::string(version_date()), "\n");
  absl::StrAppend(&out, ".Dt ", absl::AsciiStrToUpper(state.name), " ", section, "\n");
  absl::StrAppend(&out, ".Os Skua ", std::string(version()), "\n.Sh NAME\n.Nm ", state.name, "\n.Nd ", escaped(summary),
                  "\n.Sh SYNOPSIS\n.Nm\n.Op Ar options\n");
  if (!state.commands.empty()) out += state.action ? ".Op Ar command\n" : ".Ar command\n";
  append_synopsis_of_arguments(out, root);
  out += ".Sh DESCRIPTION\n";
  append_paragraphs(out,
                    absl::StrCat(state.summary, state.summary.back() == '.' ? "" : ".", "\n\n", state.description));
}

/// A command's arguments, options and examples. A command that only holds others has none.
void append_command(std::string& out, const Command& command) {
  const CommandState& state = command.state();
  absl::StrAppend(&out, ".Ss ", escaped(command.path()), "\n");
  if (state.commands.empty()) {
    absl::StrAppend(&out, ".Nm Ic ", argument(command.path()), "\n.Op Ar options\n");
    append_synopsis_of_arguments(out, command);
    out += ".Pp\n";
  }
  append_text(out, state.summary);
  if (!state.description.empty()) {
    out += ".Pp\n";
    append_paragraphs(out, state.description);
  }
  append_positionals(out, command);
  append_options(out, shown_options(command, false));
  append_example_lines(out, command);
}

void append_tail(std::string& out, const Command& root) {
  absl::StrAppend(&out, ".Sh ENVIRONMENT\n");
  append_text(out, "Each option is also an environment variable: --some-name is SKUA_SOME_NAME.");
  if (!root.state().commands.empty()) {
    append_text(out,
                "An option of a command has the command's name in it: --some-name of `table create` is "
                "SKUA_TABLE_CREATE_SOME_NAME.");
  }
  out += ".Sh FILES\n";
  append_text(out, "Each option is also a key in the TOML file that --config names: --some-name is some_name.");
  if (!root.state().commands.empty()) {
    append_text(out,
                "Options of a command are in a table of the file that has the command's name, such as "
                "[table.create].");
  }
  append_text(out, "A flag beats the environment, which beats the file, which beats the default.");
  out +=
      ".Sh EXIT STATUS\n.Bl -tag -width Ds\n.It 0\nThe program did what it was asked to.\n"
      ".It 1\nThe program could not do it: a server is away, or a disk is full.\n"
      ".It 2\nUsage or configuration is wrong.\nTo start the program again unchanged is of no use.\n.El\n";
  if (root.state().examples.empty()) return;
  out += ".Sh EXAMPLES\n";
  std::string examples;
  append_example_lines(examples, root);
  // A section does not begin with an empty line.
  absl::StrAppend(&out, absl::string_view(examples).substr(sizeof ".Pp\n" - 1));
}

}  // namespace

std::string man_page(const Command& root, int section) {
  std::string out;
  append_head(out, root, section);
  append_positionals(out, root);
  out += ".Sh OPTIONS\n";
  append_options(out, shown_options(root, false));
  out += ".Ss General options\n";
  append_options(out, shown_options(root, true));
  if (!root.state().commands.empty()) {
    out += ".Sh COMMANDS\n";
    for_each_command(root, [&](const Command& command) {
      if (&command != &root) append_command(out, command);
    });
  }
  append_tail(out, root);
  return out;
}

}  // namespace skua::app
