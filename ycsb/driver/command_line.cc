#include "ycsb/driver/command_line.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ycsb/core/text.h"
#include "ycsb/driver/known_properties.h"

namespace skua::ycsb {
namespace {

struct Option {
  std::string_view name;      // without dashes
  std::string_view property;  // that takes the value
  std::string_view fixed;     // value of an option without argument; empty: it has an argument
};

constexpr std::array<Option, 10> kOptions = {{
    {"threads", "threadcount", ""},
    {"target", "target", ""},
    {"inflight", "kv.inflight", ""},
    {"l", "label", ""},
    {"label", "label", ""},
    {"db", "db", ""},
    {"s", "status", "true"},
    {"load", "dotransactions", "false"},
    {"t", "dotransactions", "true"},
    {"run", "dotransactions", "true"},
}};
constexpr std::array<std::string_view, 4> kOtherOptions = {"p", "P", "help", "version"};

std::string_view strip_dashes(std::string_view argument) {
  argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
  return argument;
}

absl::Status unknown_option(std::string_view argument) {
  std::vector<std::string_view> names(kOtherOptions.begin(), kOtherOptions.end());
  for (const Option& option : kOptions) names.push_back(option.name);
  const std::string_view near = nearest_name(strip_dashes(argument), names);
  return invalid_argument("unknown option ", argument, near.empty() ? "" : concat("; did you mean -", near, "?"),
                          " (skua-ycsb --help lists them)");
}

/// The property that `option` (without dashes) of the binding stands for: --dpdk-udp-port is skua.dpdk.udp_port. Empty: none.
std::string_view binding_property(std::string_view option, const BindingEntry& binding) {
  for (const auto& line : binding.properties) {
    const std::string_view property = line[0];
    if (!property.starts_with(binding.name) || property.size() != binding.name.size() + 1 + option.size()) continue;
    const bool same = std::equal(option.begin(), option.end(), property.end() - static_cast<long>(option.size()),
                                 [](char a, char b) { return a == b || (a == '-' && (b == '.' || b == '_')); });
    if (same) return property;
  }
  return {};
}

class Parser {
 public:
  Parser(std::span<const std::string> arguments, std::span<const BindingEntry> bindings, const FileReader& read_file)
      : arguments_(arguments), bindings_(bindings), read_file_(read_file) {}

  absl::Status parse(CommandLine& out) {
    while (at_ < arguments_.size()) {
      const std::string_view argument = arguments_[at_++];
      absl::Status status =
          argument.size() > 1 && argument.starts_with('-') ? parse_option(argument, out) : parse_word(argument);
      if (!status.ok()) return status;
      if (out.action != CommandLine::Action::kDrive) return absl::OkStatus();
    }
    for (const auto& [name, value] : given_.all()) out.properties.set(name, value);
    return absl::OkStatus();
  }

 private:
  absl::Status parse_word(std::string_view word) {
    if (words_ == 0 && (word == "load" || word == "run")) {
      given_.set("dotransactions", word == "run" ? "true" : "false");
    } else if (words_ == 0 && word == "shell") {
      return invalid_argument("there is no shell here; use `skua-ycsb load` or `skua-ycsb run`");
    } else if (words_ == 1) {
      given_.set("db", word);
    } else {
      return invalid_argument(words_ == 0 ? "the first word must be load or run, not " : "one word too many: ", word,
                              " (skua-ycsb --help)");
    }
    ++words_;
    return absl::OkStatus();
  }

  absl::StatusOr<std::string_view> value_of(std::string_view option) {
    if (at_ == arguments_.size()) return invalid_argument(option, " needs a value");
    return std::string_view(arguments_[at_++]);
  }

  absl::Status parse_option(std::string_view argument, CommandLine& out) {
    const std::string_view name = strip_dashes(argument);
    if (name == "help" || name == "h") {
      out.action = CommandLine::Action::kHelp;
      return absl::OkStatus();
    }
    if (name == "version") {
      out.action = CommandLine::Action::kVersion;
      return absl::OkStatus();
    }
    if (name == "P" || name == "p") {
      const auto value = value_of(argument);
      if (!value.ok()) return value.status();
      return name == "P" ? load_file(std::string(*value), out) : set_property(*value);
    }
    const auto* const option =
        std::find_if(kOptions.begin(), kOptions.end(), [&](const Option& o) { return o.name == name; });
    if (option == kOptions.end()) return parse_binding_option(argument);
    if (!option->fixed.empty()) {
      given_.set(option->property, option->fixed);
      return absl::OkStatus();
    }
    const auto value = value_of(argument);
    if (!value.ok()) return value.status();
    given_.set(option->property, *value);
    return absl::OkStatus();
  }

  /// An option of a binding, which may be named before the binding is: the one that has such a property.
  absl::Status parse_binding_option(std::string_view argument) {
    const size_t equals = argument.find('=');
    const std::string_view name = strip_dashes(argument.substr(0, equals));
    std::vector<std::string_view> found;
    for (const BindingEntry& binding : bindings_) {
      if (const std::string_view property = binding_property(name, binding); !property.empty())
        found.push_back(property);
    }
    if (found.empty()) return unknown_option(argument);
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else {
      const auto next = value_of(argument);
      if (!next.ok()) return next.status();
      value = *next;
    }
    // Of several bindings' it is the chosen one's that counts; the others have no effect.
    for (const std::string_view property : found) given_.set(property, value);
    return absl::OkStatus();
  }

  absl::Status load_file(const std::string& path, CommandLine& out) {
    const auto text = read_file_(path);
    if (!text.ok()) return invalid_argument("cannot read the property file ", path, ": ", message_of(text.status()));
    if (absl::Status status = out.properties.parse(*text); !status.ok())
      return invalid_argument(path, ": ", message_of(status));
    return absl::OkStatus();
  }

  absl::Status set_property(std::string_view text) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return invalid_argument("-p ", text, ": must be name=value, for example -p operationcount=100000");
    }
    given_.set(text.substr(0, equals), text.substr(equals + 1));
    return absl::OkStatus();
  }

  std::span<const std::string> arguments_;
  std::span<const BindingEntry> bindings_;
  const FileReader& read_file_;
  Properties given_;  // on the command line itself: wins over files
  size_t at_ = 0;
  int words_ = 0;
};

/// Takes `from` away and sets `to` instead, unless that is given as well.
void rename(Properties& properties, std::string_view from, std::string_view to, std::optional<std::string> value,
            std::vector<std::string>& warnings) {
  if (!value) value = std::string(*properties.find(from));
  const bool given = properties.has(to);
  warnings.push_back(given ? concat("property ", from, " is ignored: ", to, " is given, too")
                           : concat("property ", from, " is taken as ", to, "=", *value));
  properties.erase(from);
  if (!given) properties.set(to, *value);
}

absl::StatusOr<const BindingEntry*> find_binding(std::string_view name, std::span<const BindingEntry> bindings,
                                                 std::vector<std::string>& warnings) {
  std::string names;
  for (const BindingEntry& entry : bindings) {
    if (entry.name == name) return &entry;
    if (name.substr(name.rfind('.') + 1) == entry.java_class && !entry.java_class.empty()) {
      warnings.push_back(concat("binding ", name, " is taken as ", entry.name));
      return &entry;
    }
    names += concat(names.empty() ? "" : ", ", entry.name);
  }
  return invalid_argument("there is no binding ", name, "; there are ", names);
}

void warn_of_unknown(const Properties& properties, std::span<const BindingEntry> bindings,
                     std::vector<std::string>& warnings) {
  std::vector<std::string_view> names;
  for (const auto& line : known_properties())
    if (!line[0].empty()) names.push_back(line[0]);
  for (const BindingEntry& entry : bindings)
    for (const auto& line : entry.properties) names.push_back(line[0]);
  for (const auto& [name, value] : properties.all()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string_view near = nearest_name(name, names);
    warnings.push_back(concat("property ", name, " is not known and has no effect",
                              near.empty() ? "" : concat("; did you mean ", near, "?")));
  }
}

}  // namespace

absl::Status translate_dialects(Properties& properties, std::vector<std::string>& warnings) {
  // YCSB-cpp
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{"dbname", "db"},
                                 {"limit.ops", "target"},
                                 {"field_len_dist", "fieldlengthdistribution"},
                                 {"dotransaction", "dotransactions"},
                                 {"measurement.output_file", "exportfile"}}) {
    if (properties.has(from)) rename(properties, from, to, std::nullopt, warnings);
  }
  if (properties.has("limit.file")) {
    return invalid_argument(
        "limit.file: a rate that changes while the run goes on is not supported; "
        "use -target, or several runs");
  }
  if (const auto load = properties.find("doload")) {
    rename(properties, "doload", "dotransactions", lower_text(*load) == "true" ? "false" : "true", warnings);
  }
  // go-ycsb
  if (const auto interval = properties.find("measurement.interval"); interval && parse_number<uint64_t>(*interval)) {
    rename(properties, "measurement.interval", "status.interval", std::nullopt, warnings);
  }
  if (const auto style = properties.find("outputstyle")) {
    rename(properties, "outputstyle", "exporter", *style == "json" ? "json" : "text", warnings);
  }
  for (const std::string_view name : {"sleepafterload", "warmuptime", "batch.size"}) {
    if (!properties.has(name)) continue;
    warnings.push_back(concat("property ", name, " is not supported and has no effect"));
    properties.erase(name);
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> parse_command_line(std::span<const std::string> arguments,
                                               std::span<const BindingEntry> bindings, const FileReader& read_file) {
  CommandLine out;
  if (arguments.empty()) {
    out.action = CommandLine::Action::kHelp;
    return out;
  }
  if (absl::Status status = Parser(arguments, bindings, read_file).parse(out); !status.ok()) return status;
  if (out.action != CommandLine::Action::kDrive) return out;
  if (absl::Status status = translate_dialects(out.properties, out.warnings); !status.ok()) return status;
  const auto name = out.properties.find("db");
  if (!name) return invalid_argument("which binding? For example: skua-ycsb run basic (--help)");
  auto binding = find_binding(*name, bindings, out.warnings);
  if (!binding.ok()) return binding.status();
  out.binding = *binding;
  warn_of_unknown(out.properties, bindings, out.warnings);
  return out;
}

std::string help_text(std::span<const BindingEntry> bindings) {
  std::string text =
      "skua-ycsb: YCSB's core workload, driven asynchronously\n\n"
      "  skua-ycsb load BINDING [options]    insert the records\n"
      "  skua-ycsb run  BINDING [options]    do the operations and report\n\n"
      "Options\n"
      "  -P FILE          properties from a file; may be repeated, later ones win\n"
      "  -p NAME=VALUE    one property; wins over files\n"
      "  -threads N       driver threads (1)\n"
      "  -inflight N      operations in flight per thread (1)\n"
      "  -target R        operations per second, all threads together (as many as possible)\n"
      "  -s               status lines on standard error\n"
      "  -l LABEL         what status lines begin with\n"
      "  --help           this text\n"
      "  --version        the version\n"
      "  -load, -t, -db NAME are understood as in Java's Client class.\n"
      "  A binding's own properties are options as well: --dpdk-udp-port N is -p skua.dpdk.udp_port=N.\n\n"
      "Examples\n"
      "  skua-ycsb run basic -P ycsb/workloads/workloada -p basicdb.verbose=true\n"
      "  skua-ycsb load redis -P ycsb/workloads/workloada -p recordcount=100000 -threads 2 -inflight 32\n"
      "  skua-ycsb run redis -P ycsb/workloads/workloadb -p recordcount=100000 \\\n"
      "      -p operationcount=1000000 -threads 2 -inflight 32 -s\n"
      "  skua-ycsb run redis -P ycsb/workloads/workloadc -p arrival=poisson -target 20000 \\\n"
      "      -p operationcount=0 -p maxexecutiontime=30 -p exporter=json\n\n"
      "Bindings\n";
  const auto pad = [](std::string_view word, size_t width) {
    return concat(word, std::string(word.size() < width ? width - word.size() : 1, ' '));
  };
  for (const BindingEntry& entry : bindings) {
    text += concat("  ", pad(entry.name, 17), entry.help, "\n");
    for (const auto& [name, otherwise, meaning] : entry.properties)
      text += concat("    ", pad(name, 28), pad(otherwise, 18), meaning, "\n");
  }
  text += "\nProperties and their defaults";
  for (const auto& [name, otherwise, meaning] : known_properties()) {
    text += name.empty() ? concat("\n\n  ", meaning) : concat("\n    ", pad(name, 28), pad(otherwise, 18), meaning);
  }
  return text + "\n";
}

}  // namespace skua::ycsb
