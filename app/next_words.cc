#include "app/next_words.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/config_internal.h"
#include "rpc/base/status.h"

namespace skua::app {
namespace {

/// The option whose value comes next, if the last word is `--name` of one that takes a value.
const OptionState* option_before(const Command& selected, const std::vector<std::string>& before) {
  if (before.empty() || !absl::StartsWith(before.back(), "--")) return nullptr;
  for (const Option* option : visible_options(selected)) {
    const OptionState& state = option->state();
    if (state.type != OptionType::kBool && before.back() == absl::StrCat("--", state.name)) return &state;
  }
  return nullptr;
}

std::string argument_at(const Command& selected, size_t place) {
  const auto& declared = selected.state().positionals;
  if (declared.empty()) return {};
  const OptionState& last = declared.back()->state();
  if (place >= declared.size()) return last.type == OptionType::kList ? last.name : std::string();
  return declared[place]->state().name;
}

}  // namespace

NextWords next_words(const Command& root, const std::vector<std::string>& before, std::string_view begun) {
  NextWords next;
  const auto offer = [&](const std::string& word) {
    if (absl::StartsWith(word, absl_view(begun))) next.words.push_back(word);
  };
  // What is wrong with the words so far is said when they are run.
  const Arguments scanned = scan_arguments(root, before);
  const Command& selected = *scanned.selected;
  if (const OptionState* option = option_before(selected, before); option != nullptr) {
    for (const std::string& choice : option->choices) offer(choice);
    return next;
  }
  if (absl::StartsWith(absl_view(begun), "-")) {
    for (const Option* option : visible_options(selected)) {
      if (!option->state().hidden) offer(absl::StrCat("--", option->state().name));
    }
    return next;
  }
  if (scanned.positionals.empty()) {
    for (const auto& inner : selected.state().commands) offer(inner->state().name);
  }
  next.argument = argument_at(selected, scanned.positionals.size());
  return next;
}

std::vector<std::string> given_flags(const Program& program) {
  std::vector<std::string> flags;
  for (const auto& option : program.state().options) {
    const OptionState& state = option->state();
    if (option->origin() != Origin::kFlag || state.flag_only) continue;
    for (const std::string& text : state.texts()) flags.push_back(absl::StrCat("--", state.name, "=", text));
  }
  return flags;
}

}  // namespace skua::app
