#include "app/option.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "app/config_internal.h"
#include "app/value_text.h"
#include "rpc/base/check.h"
#include "rpc/base/nearest_name.h"

namespace skua::app {

namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

std::string quoted(const std::string& text) {
  return text.empty() ? "empty" : text;
}

// "1 thread", "1 to 64 threads".
std::string unit_text(const OptionState& option, const std::string& range) {
  if (option.unit.empty()) return "";
  const bool one = range.ends_with(" 1") && !range.starts_with("-");
  return one && option.unit.back() == 's' ? absl::StrCat(" ", option.unit.substr(0, option.unit.size() - 1))
                                          : absl::StrCat(" ", option.unit);
}

std::string bound_text(const OptionState& option, int64_t bound) {
  switch (option.type) {
    case OptionType::kDuration: return format_duration(bound);
    case OptionType::kSize: return format_size(bound);
    default: return absl::StrCat(bound);
  }
}

absl::Status out_of_range(const OptionState& option, const std::string& text) {
  const std::string range = range_text(option);
  return absl::InvalidArgumentError(absl::StrCat("must be ", range, unit_text(option, range), ", not ", text));
}

absl::Status assign_integer(OptionState& option, const std::string& text) {
  absl::StatusOr<int64_t> value = option.type == OptionType::kDuration ? parse_duration(text)
                                  : option.type == OptionType::kSize   ? parse_size(text)
                                                                       : parse_int(text);
  if (!value.ok()) return value.status();
  if (*value < option.low || *value > option.high) return out_of_range(option, text);
  option.set_int(*value);
  return absl::OkStatus();
}

absl::Status assign_double(OptionState& option, const std::string& text) {
  absl::StatusOr<double> value = parse_double(text);
  if (!value.ok()) return value.status();
  if (*value < option.low_double || *value > option.high_double) return out_of_range(option, text);
  option.set_double(*value);
  return absl::OkStatus();
}

absl::Status check_choice(const OptionState& option, const std::string& text) {
  if (option.choices.empty()) return absl::OkStatus();
  for (const std::string& choice : option.choices) {
    if (choice == text) return absl::OkStatus();
  }
  const std::optional<std::string> near = nearest_name(text, option.choices);
  return absl::InvalidArgumentError(absl::StrCat("must be ", absl::StrJoin(option.choices, " or "), ", not ",
                                                 quoted(text),
                                                 near ? absl::StrCat("; did you mean ", *near, "?") : ""));
}

// check_address() says what follows the text. What is empty by default may be said to be empty.
std::optional<std::string> address_complaint(const OptionState& option, const std::string& text,
                                             const absl::Status& status, bool empty_allowed = false) {
  if (status.ok()) return std::nullopt;
  const std::string what(status.message());
  if (!text.empty()) return absl::StrCat("is ", text, ", which ", what);
  const bool may_be_empty =
      empty_allowed || (!option.positional && option.default_texts == std::vector<std::string>{""});
  return may_be_empty ? std::nullopt : std::optional(what);
}

}  // namespace

Option::Option(std::unique_ptr<OptionState> state) : state_(std::move(state)) {}
Option::~Option() = default;

Option& Option::short_name(char letter) {
  for (const Option* other : visible_options(*state_->owner)) {
    SKUA_CHECK(other->state().short_name != letter, "two options with the same letter");
  }
  state_->short_name = letter;
  return *this;
}

Option& Option::required() {
  state_->required = true;
  return *this;
}

Option& Option::optional() {
  state_->required = false;
  return *this;
}

Option& Option::range(int64_t low, int64_t high) {
  SKUA_CHECK(low <= high, "an option's range is empty");
  state_->low = low;
  state_->high = high;
  state_->ranged = true;
  return *this;
}

Option& Option::range_double(double low, double high) {
  SKUA_CHECK(low <= high, "an option's range is empty");
  state_->ranged = true;
  state_->low_double = low;
  state_->high_double = high;
  return *this;
}

Option& Option::at_least(int64_t low) {
  return range(low, state_->high);
}

Option& Option::one_of(std::vector<std::string> values) {
  state_->choices = std::move(values);
  return *this;
}

Option& Option::value_name(std::string name) {
  state_->value_name = std::move(name);
  return *this;
}

Option& Option::unit(std::string unit) {
  state_->unit = std::move(unit);
  return *this;
}

Option& Option::check(std::function<std::optional<std::string>(const std::string&)> complaint) {
  state_->complaint = std::move(complaint);
  return *this;
}

Option& Option::address(const AddressRules& rules) {
  return check([rules, this](const std::string& text) {
    return address_complaint(*state_, text, check_address(text, rules), rules.empty_allowed);
  });
}

Option& Option::addresses(const AddressRules& rules) {
  return check([rules, this](const std::string& text) -> std::optional<std::string> {
    if (absl::StrContains(text, ';'))
      return absl::StrCat("is ", text, ": write commas between addresses, no semicolon");
    for (const absl::string_view piece : absl::StrSplit(text, ',')) {
      const std::string one(piece);
      if (one.empty() && !text.empty()) return absl::StrCat("is ", text, ", which has a comma too many: leave it out");
      if (auto complaint = address_complaint(*state_, one, check_address(one, rules))) return complaint;
    }
    return std::nullopt;
  });
}

Option& Option::host(const AddressRules& rules) {
  return check(
      [rules, this](const std::string& text) { return address_complaint(*state_, text, check_host(text, rules)); });
}

Option& Option::hidden() {
  state_->hidden = true;
  return *this;
}

Option& Option::secret() {
  state_->secret = true;
  return *this;
}

Option& Option::flag_only() {
  state_->flag_only = true;
  return *this;
}

Origin Option::origin() const {
  return state_->origin;
}

absl::Status assign(OptionState& option, const std::vector<std::string>& texts, Origin origin, std::string source) {
  SKUA_CHECK(option.type == OptionType::kList || texts.size() == 1, "one value expected");
  for (const std::string& text : texts) {
    if (absl::Status status = check_choice(option, text); !status.ok()) return status;
    if (!option.complaint) continue;
    if (std::optional<std::string> complaint = option.complaint(text)) {
      const bool names_wish = absl::StartsWith(*complaint, "must ");
      return absl::InvalidArgumentError(names_wish ? absl::StrCat(*complaint, ", not ", quoted(text)) : *complaint);
    }
  }
  absl::Status status;
  switch (option.type) {
    case OptionType::kString:
    case OptionType::kChoice: option.set_string(texts[0]); break;
    case OptionType::kBool: {
      absl::StatusOr<bool> value = parse_bool(texts[0]);
      if (!value.ok()) return value.status();
      option.set_bool(*value);
      break;
    }
    case OptionType::kInt:
    case OptionType::kDuration:
    case OptionType::kSize: status = assign_integer(option, texts[0]); break;
    case OptionType::kDouble: status = assign_double(option, texts[0]); break;
    case OptionType::kList: option.set_list(texts); break;
  }
  if (!status.ok()) return status;
  option.origin = origin;
  option.source = std::move(source);
  return absl::OkStatus();
}

std::string range_text(const OptionState& option) {
  if (option.type == OptionType::kDouble) {
    const bool low = option.low_double > -std::numeric_limits<double>::infinity();
    const bool high = option.high_double < std::numeric_limits<double>::infinity();
    const std::string from = format_double(option.low_double);
    const std::string to = format_double(option.high_double);
    if (low && high) return absl::StrCat(from, " to ", to);
    return low ? absl::StrCat("at least ", from) : high ? absl::StrCat("at most ", to) : "";
  }
  if (option.type != OptionType::kInt && option.type != OptionType::kDuration && option.type != OptionType::kSize) {
    return "";
  }
  // That durations and sizes are not negative goes without saying.
  const bool low = option.low > (option.type == OptionType::kInt ? kLowest : 0);
  const bool high = option.high < kHighest;
  if (low && high) {
    return absl::StrCat(bound_text(option, option.low), " to ", bound_text(option, option.high));
  }
  if (low) return absl::StrCat("at least ", bound_text(option, option.low));
  return high ? absl::StrCat("at most ", bound_text(option, option.high)) : "";
}

std::string value_name(const OptionState& option) {
  if (!option.value_name.empty()) return option.value_name;
  if (option.positional) return absl::AsciiStrToUpper(option.name);
  if (!option.choices.empty()) return absl::StrJoin(option.choices, "|");
  switch (option.type) {
    case OptionType::kString:
    case OptionType::kChoice: return "TEXT";
    case OptionType::kBool: return "";
    case OptionType::kInt: return "N";
    case OptionType::kDouble: return "NUMBER";
    case OptionType::kDuration: return "DURATION";
    case OptionType::kSize: return "SIZE";
    case OptionType::kList: return "A,B,...";
  }
  return "";
}

std::vector<std::string> split_list(std::string_view text) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), ',', absl::SkipWhitespace());
}

}  // namespace skua::app
