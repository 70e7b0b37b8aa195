#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/config_internal.h"
#include "app/edit_distance.h"

namespace skua::app {

namespace {

constexpr std::string_view kPrefix = "SKUA_";

// Nearer than this, an unknown variable is taken for a misspelled one; further away it may belong
// to another program of the family and is left alone.
constexpr size_t kMisspelledMax = 2;

absl::Status check_unknown(const std::string& variable, const std::vector<std::string>& known) {
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const std::string& name : known) names.push_back(name.substr(kPrefix.size()));
  const std::optional<std::string> near =
      nearest_name(std::string_view(variable).substr(kPrefix.size()), names, kMisspelledMax);
  if (!near) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unknown environment variable ", variable, "; did you mean SKUA_", *near, "?"));
}

}  // namespace

absl::Status apply_environment(const Command& root, const Environment& environment) {
  std::map<std::string, Option*> options;
  std::vector<std::string> known;
  for_each_command(root, [&](const Command& command) {
    for (const auto& option : command.state().options) {
      if (option->state().flag_only) continue;
      const std::string name = environment_name(option->state());
      options[name] = option.get();
      known.push_back(name);
    }
  });
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, absl::string_view(kPrefix.data(), kPrefix.size()))) continue;
    const auto found = options.find(name);
    if (found == options.end()) {
      if (absl::Status status = check_unknown(name, known); !status.ok()) return status;
      continue;
    }
    OptionState& option = found->second->state();
    const std::vector<std::string> texts =
        option.type == OptionType::kList ? split_list(value) : std::vector<std::string>{value};
    absl::Status status = assign(option, texts, Origin::kEnvironment, name);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("environment variable ", name, " ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace skua::app
