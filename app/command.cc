#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "app/config.h"
#include "app/config_internal.h"
#include "app/value_text.h"
#include "rpc/base/check.h"

namespace skua::app {

namespace {

bool is_option_name(const std::string& name) {
  return !name.empty() && absl::ascii_islower(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; });
}

Option& declare(Command& command, std::string name, OptionType type, std::string help, bool positional) {
  SKUA_CHECK(is_option_name(name), "an option's name is lower case letters, digits and dashes");
  // Words that are told apart by their place may have the names of options: `get TABLE KEY` beside --key.
  for (const Option* other : visible_options(command)) {
    SKUA_CHECK(positional || other->state().name != name, "an option is declared twice");
  }
  auto state = std::make_unique<OptionState>();
  state->name = std::move(name);
  state->type = type;
  state->help = std::move(help);
  state->positional = positional;
  state->required = positional;
  state->owner = &command;
  auto& list = positional ? command.state().positionals : command.state().options;
  list.push_back(std::make_unique<Option>(std::move(state)));
  return *list.back();
}

// Binds the value's way in and out; what is in the variable now is the default.
Option& bind_string(Option& option, std::string* target) {
  option.state().set_string = [target](const std::string& value) { *target = value; };
  option.state().texts = [target] { return std::vector<std::string>{*target}; };
  option.state().default_texts = option.state().texts();
  return option;
}

Option& bind_list(Option& option, std::vector<std::string>* target) {
  option.state().set_list = [target](std::vector<std::string> value) { *target = std::move(value); };
  option.state().texts = [target] { return *target; };
  option.state().default_texts = option.state().texts();
  return option;
}

}  // namespace

Command::Command(std::unique_ptr<CommandState> state) : state_(std::move(state)) {}
Command::~Command() = default;

Option& Command::add_string(std::string name, std::string* target, std::string help) {
  return bind_string(declare(*this, std::move(name), OptionType::kString, std::move(help), false), target);
}

Option& Command::add_bool(std::string name, bool* target, std::string help) {
  Option& option = declare(*this, std::move(name), OptionType::kBool, std::move(help), false);
  option.state().set_bool = [target](bool value) { *target = value; };
  option.state().texts = [target] { return std::vector<std::string>{*target ? "true" : "false"}; };
  option.state().default_texts = option.state().texts();
  return option;
}

Option& Command::add_double(std::string name, double* target, std::string help) {
  Option& option = declare(*this, std::move(name), OptionType::kDouble, std::move(help), false);
  option.state().set_double = [target](double value) { *target = value; };
  option.state().texts = [target] { return std::vector<std::string>{format_double(*target)}; };
  option.state().default_texts = option.state().texts();
  return option;
}

Option& Command::add_duration(const std::string& name, DurationNs* target, const std::string& help) {
  return add_integer<DurationNs>(name, OptionType::kDuration, target, help).at_least(0);
}

Option& Command::add_list(std::string name, std::vector<std::string>* target, std::string help) {
  return bind_list(declare(*this, std::move(name), OptionType::kList, std::move(help), false), target);
}

Option& Command::add_integer_texts(std::string name, OptionType type, int64_t low, int64_t high,
                                   std::function<void(int64_t)> set, std::function<int64_t()> get, std::string help) {
  Option& option = declare(*this, std::move(name), type, std::move(help), false);
  option.state().low = low;
  option.state().high = high;
  option.state().set_int = std::move(set);
  option.state().texts = [type, get = std::move(get)] {
    const int64_t value = get();
    return std::vector<std::string>{type == OptionType::kDuration ? format_duration(value)
                                    : type == OptionType::kSize   ? format_size(value)
                                                                  : absl::StrCat(value)};
  };
  option.state().default_texts = option.state().texts();
  return option;
}

Option& Command::add_choice_texts(std::string name, std::vector<std::string> words,
                                  std::function<void(const std::string&)> set, std::function<std::string()> get,
                                  std::string help) {
  Option& option = declare(*this, std::move(name), OptionType::kChoice, std::move(help), false);
  option.state().choices = std::move(words);
  option.state().set_string = std::move(set);
  option.state().texts = [get = std::move(get)] { return std::vector<std::string>{get()}; };
  option.state().default_texts = option.state().texts();
  return option;
}

Option& Command::add_positional(std::string name, std::string* target, std::string help) {
  for (const auto& other : state_->positionals) {
    SKUA_CHECK(other->state().type != OptionType::kList, "a positional list must come last");
  }
  return bind_string(declare(*this, std::move(name), OptionType::kString, std::move(help), true), target);
}

Option& Command::add_positional_list(std::string name, std::vector<std::string>* target, std::string help) {
  return bind_list(declare(*this, std::move(name), OptionType::kList, std::move(help), true), target);
}

Command& Command::add_command(std::string name, std::string summary) {
  SKUA_CHECK(is_option_name(name), "a command's name is lower case letters, digits and dashes");
  SKUA_CHECK(find_command(*this, name) == nullptr, "a command is declared twice");
  auto state = std::make_unique<CommandState>();
  state->parent = this;
  state->name = std::move(name);
  state->summary = std::move(summary);
  state_->commands.push_back(std::unique_ptr<Command>(new Command(std::move(state))));
  return *state_->commands.back();
}

Command& Command::description(std::string text) {
  state_->description = std::move(text);
  return *this;
}

Command& Command::example(std::string command_line, std::string what) {
  state_->examples.push_back({std::move(command_line), std::move(what)});
  return *this;
}

Command& Command::action(std::function<int()> run) {
  state_->action = std::move(run);
  return *this;
}

std::string Command::path() const {
  if (state_->parent == nullptr) return "";
  const std::string outer = state_->parent->path();
  return outer.empty() ? state_->name : absl::StrCat(outer, " ", state_->name);
}

std::vector<Option*> visible_options(const Command& command) {
  std::vector<Option*> options;
  for (const Command* at = &command; at != nullptr; at = at->state().parent) {
    for (const auto& option : at->state().options) options.push_back(option.get());
  }
  return options;
}

Command* find_command(const Command& parent, std::string_view name) {
  for (const auto& command : parent.state().commands) {
    if (command->state().name == name) return command.get();
  }
  return nullptr;
}

std::string command_line_name(const Command& command) {
  const Command* parent = command.state().parent;
  if (parent == nullptr) return command.state().name;
  return absl::StrCat(command_line_name(*parent), " ", command.state().name);
}

std::string environment_name(const OptionState& option) {
  const std::string path = option.owner->path();
  return absl::AsciiStrToUpper(
      absl::StrReplaceAll(absl::StrCat("SKUA_", path, path.empty() ? "" : "_", option.name), {{"-", "_"}, {" ", "_"}}));
}

std::string file_key(const OptionState& option) {
  return absl::StrReplaceAll(option.name, {{"-", "_"}});
}

void for_each_command(const Command& command, const std::function<void(const Command&)>& visit) {
  visit(command);
  for (const auto& inner : command.state().commands) for_each_command(*inner, visit);
}

}  // namespace skua::app
