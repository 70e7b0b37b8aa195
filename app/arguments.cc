// The command line, taken apart.
//
//   skuactl --output json table create usertable --shards=12 -- --odd-name
//           ^ program's   ^ commands   ^         ^ create's     ^ positional, come what may
//
// Words select commands until one matches none; from then on they are positional, so that a key
// may be called `status`. An option is looked up in the command reached so far and outwards.
#include <cctype>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/config_internal.h"
#include "app/value_text.h"
#include "rpc/base/nearest_name.h"

namespace skua::app {

namespace {

class Scanner {
 public:
  Scanner(const Command& root, const std::vector<std::string>& words) : root_(root), words_(words) {
    result_.selected = &root;
  }

  Arguments scan() {
    while (next_ < words_.size() && result_.status.ok()) {
      const std::string& word = words_[next_++];
      after_bool_ = std::exchange(last_bool_, nullptr);
      if (!only_positionals_ && word == "--") {
        only_positionals_ = true;
      } else if (!only_positionals_ && absl::StartsWith(word, "--")) {
        long_option(word);
      } else if (!only_positionals_ && is_short(word)) {
        short_option(word);
      } else {
        plain_word(word);
      }
    }
    return std::move(result_);
  }

 private:
  // `-` alone means standard input to many programs, and -5 is a number.
  static bool is_short(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0;
  }

  void fail(const std::string& message) {
    if (result_.status.ok()) result_.status = absl::InvalidArgumentError(message);
  }

  Option* find(std::string_view name) const {
    for (Option* option : visible_options(*result_.selected)) {
      if (option->state().name == name) return option;
    }
    return nullptr;
  }

  void long_option(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    if (Option* option = find(name)) return take(*option, "--" + name, value);
    if (absl::StartsWith(name, "no-") && !value) {
      Option* option = find(name.substr(3));
      if (option != nullptr && option->state().type == OptionType::kBool) {
        return take(*option, "--" + name, "false");
      }
    }
    unknown("--" + name, name);
  }

  void short_option(const std::string& word) {
    const bool one_letter = word.size() == 2 || word[2] == '=';
    for (Option* option : visible_options(*result_.selected)) {
      if (option->state().short_name != word[1] || !one_letter) continue;
      std::optional<std::string> value;
      if (word.size() > 2) value = word.substr(3);
      return take(*option, word.substr(0, 2), value);
    }
    // -data-dir: one dash too few.
    unknown(word, word.substr(1, word.find('=') - 1));
  }

  // `spelled` is the option as it was typed, for messages.
  void take(Option& option, const std::string& spelled, std::optional<std::string> value) {
    const OptionState& state = option.state();
    if (!value && state.type == OptionType::kBool) {
      value = "true";
      last_bool_ = &option;
    }
    if (!value) {
      const bool more = next_ < words_.size();
      if (!more || (absl::StartsWith(words_[next_], "--") && is_option(words_[next_]))) {
        return fail(absl::StrCat(spelled, " needs a value: ", spelled, " ", value_name(state)));
      }
      value = words_[next_++];
    }
    std::vector<std::string>* texts = nullptr;
    for (auto& [seen, seen_texts] : result_.flags) {
      if (seen == &option) texts = &seen_texts;
    }
    if (state.type != OptionType::kList) {
      if (texts != nullptr) return fail(absl::StrCat("--", state.name, " is given twice"));
      result_.flags.push_back({&option, {*value}});
      return;
    }
    if (texts == nullptr) texts = &result_.flags.emplace_back(&option, std::vector<std::string>()).second;
    for (std::string& item : split_list(*value)) texts->push_back(std::move(item));
  }

  bool is_option(const std::string& word) const {
    return word == "--" || find(word.substr(2, word.find('=') - 2)) != nullptr;
  }

  void unknown(const std::string& spelled, const std::string& name) {
    std::vector<std::string> names;
    for (const Option* option : visible_options(*result_.selected)) {
      if (!option->state().hidden) names.push_back(option->state().name);
    }
    if (std::optional<std::string> near = nearest_name(name, names)) {
      return fail(absl::StrCat("unknown option ", spelled, "; did you mean --", *near, "?"));
    }
    std::string elsewhere;
    for_each_command(root_, [&](const Command& command) {
      for (const auto& option : command.state().options) {
        if (option->state().name == name) elsewhere = command_line_name(command);
      }
    });
    if (!elsewhere.empty()) {
      return fail(absl::StrCat("unknown option ", spelled, "; it belongs to `", elsewhere, "`"));
    }
    const bool may_be_a_value = takes_positional();
    fail(absl::StrCat("unknown option ", spelled, may_be_a_value ? "; if it is no option, write -- before it" : ""));
  }

  /// Whether the command takes one more.
  [[nodiscard]] bool takes_positional() const {
    const auto& declared = result_.selected->state().positionals;
    const bool has_list = !declared.empty() && declared.back()->state().type == OptionType::kList;
    return has_list || result_.positionals.size() < declared.size();
  }

  void plain_word(const std::string& word) {
    const Command& command = *result_.selected;
    if (!only_positionals_ && result_.positionals.empty()) {
      if (const Command* inner = find_command(command, word)) {
        result_.selected = inner;
        return;
      }
    }
    if (takes_positional()) {
      result_.positionals.push_back(word);
      return;
    }
    if (word == "help" || word == "version")
      return fail(absl::StrCat("unknown command ", word, "; did you mean --", word, "?"));
    if (after_bool_ != nullptr && parse_bool(word).ok()) {
      return fail(
          absl::StrCat("unexpected argument ", word, "; did you mean --", after_bool_->state().name, "=", word, "?"));
    }
    std::vector<std::string> names;
    for (const auto& inner : command.state().commands) names.push_back(inner->state().name);
    if (names.empty()) return fail(absl::StrCat("unexpected argument ", word));
    const std::optional<std::string> near = nearest_name(word, names);
    fail(absl::StrCat("unknown command ", word, near ? absl::StrCat("; did you mean ", *near, "?") : ""));
  }

  const Command& root_;
  const std::vector<std::string>& words_;
  size_t next_ = 0;
  bool only_positionals_ = false;
  // The option without a value of its own that this word follows; the one that the next word will follow.
  const Option* after_bool_ = nullptr;
  const Option* last_bool_ = nullptr;
  Arguments result_;
};

}  // namespace

Arguments scan_arguments(const Command& root, const std::vector<std::string>& arguments) {
  return Scanner(root, arguments).scan();
}

}  // namespace skua::app
