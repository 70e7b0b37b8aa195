#include "ycsb/driver/command_line.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "rpc/base/nearest_name.h"
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
constexpr std::array<std::string_view, 9> kOtherOptions = {"p",   "P",  "config", "control-address", "cert",
                                                           "key", "ca", "help",   "version"};

std::string_view strip_dashes(std::string_view argument) {
  argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
  return argument;
}

absl::Status unknown_option(std::string_view argument) {
  std::vector<std::string> names(kOtherOptions.begin(), kOtherOptions.end());
  for (const Option& option : kOptions) names.emplace_back(option.name);
  // Every letter is near to those of one letter.
  std::erase_if(names, [](const std::string& name) { return name.size() == 1; });
  const std::optional<std::string> near = nearest_name(strip_dashes(argument), names);
  return invalid_argument("unknown option ", argument, near ? concat("; did you mean -", *near, "?") : "",
                          " (skua-ycsb --help lists them)");
}

/// The property that `option` (without dashes) of the binding stands for: --dpdk-udp-port is skua.dpdk.udp_port. Empty:
/// none.
std::string_view binding_property(std::string_view option, const BindingEntry& binding) {
  for (const auto& [name, property] : binding.options)
    if (name == option) return property;
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
  Parser(std::span<const std::string> arguments, std::span<const BindingEntry> bindings,
         const Surroundings& surroundings)
      : arguments_(arguments), bindings_(bindings), surroundings_(surroundings) {}

  absl::Status parse(CommandLine& out) {
    while (at_ < arguments_.size()) {
      const std::string_view argument = arguments_[at_++];
      absl::Status status =
          argument.size() > 1 && argument.starts_with('-') ? parse_option(argument, out) : parse_word(argument);
      if (!status.ok()) return status;
      if (out.action != CommandLine::Action::kDrive) return absl::OkStatus();
    }
    if (absl::Status status = take_surroundings(out); !status.ok()) return status;
    for (const Properties* stronger : {&files_, &options_, &given_})
      for (const auto& [name, value] : stronger->all()) out.properties.set(name, value);
    return absl::OkStatus();
  }

 private:
  absl::Status take_surroundings(CommandLine& out) {
    if (!surroundings_.options) return absl::OkStatus();
    const absl::StatusOr<OptionValues> values = surroundings_.options(config_file_);
    if (!values.ok()) return values.status();
    for (const auto& [option, value] : *values) set_binding_option(option, value, out.properties);
    return absl::OkStatus();
  }

  /// Of several bindings' it is the chosen one's that counts; the others have no effect. False if none has such an
  /// option.
  bool set_binding_option(std::string_view option, std::string_view value, Properties& properties) const {
    bool found = false;
    for (const BindingEntry& binding : bindings_) {
      const std::string_view property = binding_property(option, binding);
      if (property.empty()) continue;
      properties.set(property, value);
      found = true;
    }
    return found;
  }

  absl::Status parse_word(std::string_view word) {
    if (words_ == 0 && (word == "load" || word == "run")) {
      given_.set("dotransactions", word == "run" ? "true" : "false");
    } else if (words_ == 0 && word == "shell") {
      return invalid_argument("there is no shell here; use `skua-ycsb load` or `skua-ycsb run`");
    } else if (words_ == 1) {
      given_.set("db", word);
    } else if (words_ == 0) {
      return invalid_argument("the first word must be load or run, not ", word, " (skua-ycsb --help)");
    } else {
      return invalid_argument("one word too many: ", word, "; a property file goes after -P, a property after -p");
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
    const size_t equals = name.find('=');
    const std::string_view option_name = name.substr(0, equals);
    const auto* const option =
        std::find_if(kOptions.begin(), kOptions.end(), [&](const Option& o) { return o.name == option_name; });
    if (option != kOptions.end() && !option->fixed.empty()) {
      if (equals != std::string_view::npos) return invalid_argument("-", option_name, " takes no value");
      given_.set(option->property, option->fixed);
      return absl::OkStatus();
    }
    // Bindings' options are known before the binding is.
    Properties probe;
    if (option == kOptions.end() && option_name != "config" && !set_binding_option(option_name, "", probe))
      return unknown_option(argument.substr(0, argument.find('=')));
    const auto value = equals != std::string_view::npos ? name.substr(equals + 1) : value_of(argument);
    if (!value.ok()) return value.status();
    if (option != kOptions.end()) {
      given_.set(option->property, *value);
    } else if (option_name == "config") {
      config_file_ = *value;
      if (config_file_.empty()) return invalid_argument("--config needs a file");
    } else {
      set_binding_option(option_name, *value, options_);
    }
    return absl::OkStatus();
  }

  absl::Status load_file(const std::string& path, CommandLine& out) {
    const auto text = surroundings_.read_file(path);
    if (!text.ok()) {
      return invalid_argument("cannot read the property file: ", message_of(text.status()),
                              path.starts_with("workloads/") ? "; those of this project are in ycsb/workloads" : "");
    }
    std::vector<std::string> remarks;
    if (absl::Status status = files_.parse(*text, &remarks); !status.ok())
      return invalid_argument(path, ": ", message_of(status));
    for (const std::string& remark : remarks) out.warnings.push_back(concat(path, ": ", remark));
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
  const Surroundings& surroundings_;
  std::string config_file_;
  Properties files_;    // -P
  Properties options_;  // the bindings'
  Properties given_;    // -p, and the driver's options
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
  std::vector<std::string> all;
  for (const BindingEntry& entry : bindings) {
    if (entry.name == name) return &entry;
    all.emplace_back(entry.name);
    if (name.substr(name.rfind('.') + 1) == entry.java_class && !entry.java_class.empty()) {
      warnings.push_back(concat("binding ", name, " is taken as ", entry.name));
      return &entry;
    }
    names += concat(names.empty() ? "" : ", ", entry.name);
  }
  if (name == "redis") {
    return invalid_argument("the binding redis was left out of this build: install hiredis (apt-get install ",
                            "libhiredis-dev) and run cmake again; there are ", names);
  }
  const std::optional<std::string> near = nearest_name(name, all);
  return invalid_argument("there is no binding ", name, near ? concat("; did you mean ", *near, "?") : "",
                          near ? " There are " : "; there are ", names);
}

void warn_of_unknown(const Properties& properties, std::span<const BindingEntry> bindings,
                     std::vector<std::string>& warnings) {
  std::vector<std::string> names;
  for (const auto& line : known_properties())
    if (!line[0].empty()) names.emplace_back(line[0]);
  for (const BindingEntry& entry : bindings)
    for (const auto& line : entry.properties) names.emplace_back(line[0]);
  for (const auto& [name, value] : properties.all()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::optional<std::string> near = nearest_name(name, names);
    warnings.push_back(concat("property ", name, " is not known and has no effect",
                              near ? concat("; did you mean ", *near, "?") : ""));
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
                                               std::span<const BindingEntry> bindings,
                                               const Surroundings& surroundings) {
  CommandLine out;
  if (arguments.empty()) {
    return invalid_argument("load or run? For example: skua-ycsb load basic -p recordcount=10 (skua-ycsb --help)");
  }
  if (absl::Status status = Parser(arguments, bindings, surroundings).parse(out); !status.ok()) return status;
  if (out.action != CommandLine::Action::kDrive) return out;
  if (absl::Status status = translate_dialects(out.properties, out.warnings); !status.ok()) return status;
  const auto name = out.properties.find("db");
  if (!name) return invalid_argument("which binding? For example: skua-ycsb run skua (skua-ycsb --help lists them)");
  auto binding = find_binding(*name, bindings, out.warnings);
  if (!binding.ok()) return binding.status();
  out.binding = *binding;
  warn_of_unknown(out.properties, bindings, out.warnings);
  if (out.binding->doubts != nullptr) {
    for (std::string& doubt : out.binding->doubts(out.properties)) out.warnings.push_back(std::move(doubt));
  }
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
      "  --control-address HOST:PORT[,...]  where Skua's control plane is (binding skua)\n"
      "  --cert FILE --key FILE --ca FILE   this program's certificate, for clusters with TLS (binding skua)\n"
      "  --config FILE    TOML, as the other programs of Skua read it: control_address, transport, dpdk_*, verbs_*\n"
      "  -threads N       driver threads (1)\n"
      "  -inflight N      operations in flight per thread (1)\n"
      "  -target R        operations per second, all threads together (as many as possible)\n"
      "  -s               status lines on standard error\n"
      "  -l LABEL         what status lines begin with\n"
      "  --help           this text\n"
      "  --version        the version\n"
      "  -load, -t, -db NAME are understood as in Java's Client class.\n"
      "  A binding's own properties are options as well: --dpdk-udp-port N is -p skua.dpdk.udp_port=N.\n\n"
      "Environment\n"
      "  SKUA_CONTROL_ADDRESS, SKUA_TRANSPORT, SKUA_DPDK_..., SKUA_VERBS_...: as the options of these names;\n"
      "  SKUA_CONFIG: as --config. Who wins: -p, then options, -P files, environment, --config file, default.\n\n"
      "Exit codes\n"
      "  0 done; 1 it could not be done, or most operations failed; 2 the command line or a property is wrong;\n"
      "  130 interrupted (Ctrl-C), after the report of what was done.\n\n"
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
