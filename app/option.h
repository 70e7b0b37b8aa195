// One declared option or positional argument: its names, its type, the variable it sets.
#ifndef SKUA_APP_OPTION_H_
#define SKUA_APP_OPTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/address.h"

namespace skua::app {

/// Where a value came from; a later one beats an earlier one.
enum class Origin { kDefault, kFile, kEnvironment, kFlag };

enum class OptionType { kString, kBool, kInt, kDouble, kDuration, kSize, kList, kChoice };

struct OptionState;

/// Made by Command::add_*; the setters below refine the declaration and return the option, so that
/// a declaration reads as one statement:
///
///   program.add_int("workers", &config.workers, "Polling threads.").range(1, 64).unit("threads");
///
/// The bound variable's value at declaration is the default. It must outlive the parsing.
class Option {
 public:
  /// By Command::add_* only.
  explicit Option(std::unique_ptr<OptionState> state);
  ~Option();

  /// A one-letter form: `-c VALUE` or `-c=VALUE`.
  Option& short_name(char letter);
  /// Must be given, by flag, environment or file.
  Option& required();
  /// A positional argument that may be left out.
  Option& optional();
  /// Inclusive bounds. Integers count as they are, durations in ns, sizes in bytes.
  Option& range(int64_t low, int64_t high);
  /// Inclusive bounds of a double.
  Option& range_double(double low, double high);
  Option& at_least(int64_t low);
  /// The values a string may have; also shell completion's answer.
  Option& one_of(std::vector<std::string> values);
  /// What help shows for the value: DIR, ADDRESS. The type's name by default.
  Option& value_name(std::string name);
  /// What an integer or a double counts, for help: "threads", "requests".
  Option& unit(std::string unit);
  /// A further test of the text: returns the complaint, or nothing. One that begins with "must" is followed by the text
  /// ("must be a multiple of 4KiB" becomes "must be a multiple of 4KiB, not 5"); any other says all itself.
  Option& check(std::function<std::optional<std::string>(const std::string& text)> complaint);
  /// The value must be an address by these rules (address.h); addresses(): so must each of several, with commas
  /// between them. An option that is empty by default may be given as empty.
  Option& address(const AddressRules& rules = {});
  Option& addresses(const AddressRules& rules = {});
  /// A host without a port.
  Option& host(const AddressRules& rules = {});
  /// Left out of help and completion.
  Option& hidden();
  /// The value is a secret: whoever may read the file that it stands in is warned of.
  Option& secret();
  /// Only a flag: no environment variable, no key in the file.
  Option& flag_only();

  [[nodiscard]] Origin origin() const;
  /// Given by flag, environment or file.
  [[nodiscard]] bool is_set() const { return origin() != Origin::kDefault; }

  /// For the implementation.
  [[nodiscard]] OptionState& state() const { return *state_; }

 private:
  std::unique_ptr<OptionState> state_;
};

}  // namespace skua::app

#endif  // SKUA_APP_OPTION_H_
