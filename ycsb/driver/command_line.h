// The command line and its dialects.
//
//   skua-ycsb load|run BINDING [options]            as bin/ycsb
//   skua-ycsb -load|-t -db BINDING [options]        as Java's Client class and YCSB-cpp
//
// Everything ends as properties: -threads 4 is -p threadcount=4. Wherever they stand,
//
//   -p and the driver's options  >  a binding's options  >  -P files  >  environment  >  --config file  >  default
//
// and of equals the later one wins. Names that only YCSB-cpp or go-ycsb know are turned into Java's, with one warning
// each.
#ifndef SKUA_YCSB_DRIVER_COMMAND_LINE_H_
#define SKUA_YCSB_DRIVER_COMMAND_LINE_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ycsb/bindings/binding.h"
#include "ycsb/core/properties.h"

namespace skua::ycsb {

struct CommandLine {
  enum class Action : uint8_t { kDrive, kHelp, kVersion };

  Action action = Action::kDrive;
  Properties properties;
  const BindingEntry* binding = nullptr;  // set for kDrive
  std::vector<std::string> warnings;
};

/// Reads a whole file. Errors are in words that need nothing added: they name the path.
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;
/// Options without dashes and their values.
using OptionValues = std::vector<std::pair<std::string, std::string>>;

/// What a run draws on beside its command line.
struct Surroundings {
  FileReader read_file;
  /// The bindings' options that the environment and the file of --config (empty: not given) set, the stronger ones
  /// last. Errors: INVALID_ARGUMENT. May be null: there are none.
  std::function<absl::StatusOr<OptionValues>(const std::string& config_file)> options = nullptr;
  /// Can this process have so many more threads? Errors: INVALID_ARGUMENT. May be null: nobody knows.
  std::function<absl::Status(size_t)> check_threads = nullptr;
};

/// `arguments` without the program's name. Errors: INVALID_ARGUMENT with one line that says what is
/// wrong and what would be right.
[[nodiscard]] absl::StatusOr<CommandLine> parse_command_line(std::span<const std::string> arguments,
                                                             std::span<const BindingEntry> bindings,
                                                             const Surroundings& surroundings);

/// The text of --help.
[[nodiscard]] std::string help_text(std::span<const BindingEntry> bindings);

/// Turns other dialects' property names into Java's and appends a warning for each. Exposed for
/// tests. Errors: INVALID_ARGUMENT for what has no counterpart here and would change the result.
absl::Status translate_dialects(Properties& properties, std::vector<std::string>& warnings);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_COMMAND_LINE_H_
