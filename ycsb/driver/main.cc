// skua-ycsb: the table of bindings, and what the environment and the --config file say.
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "app/config.h"
#include "app/exit.h"
#include "app/file.h"
#include "app/process.h"
#include "control/proto/grpc_log.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/verbs/verbs_settings.h"
#include "ycsb/bindings/basic.h"
#include "ycsb/bindings/memcached.h"
#include "ycsb/bindings/rocksdb.h"
#include "ycsb/bindings/skua.h"
#include "ycsb/driver/driver.h"
#ifdef SKUA_YCSB_HAS_REDIS
#include "ycsb/bindings/redis.h"
#endif

extern char** environ;

namespace {

namespace app = skua::app;
namespace ycsb = skua::ycsb;

constexpr std::string_view kProgram = "skua-ycsb";
constexpr size_t kFileBytesMax = size_t{64} << 20;

app::Environment environment() {
  app::Environment out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const size_t equals = text.find('='); equals != std::string_view::npos)
      out[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return out;
}

/// Options as the other programs have them: what the environment and the file set of them, as text.
class SkuaOptions {
 public:
  SkuaOptions() : program_({.name = std::string(kProgram), .summary = "the options of the binding skua"}) {
    add("control-address", program_.add_string("control-address", &control_, "Where the control plane listens."),
        [this] { return control_; });
    for (const auto& [name, to] : {std::pair{"cert", &cert_}, {"key", &key_}, {"ca", &ca_}}) {
      add(name, program_.add_string(name, to, "A file of the program's credentials."), [to = to] { return *to; });
    }
    add("transport", program_.add_string("transport", &transport_, "What requests travel by."), [this] {
      return transport_;
    }).one_of({"tcp", "dpdk", "verbs"});
    const auto declare = [this](const char* name, auto* target, const char* help) {
      declare_setting(name, target, help);
    };
    declare_dpdk_settings(dpdk_, declare);
    declare_verbs_settings(verbs_, declare);
  }

  absl::StatusOr<ycsb::OptionValues> read(const std::string& config_file) {
    std::vector<std::string> arguments;
    if (!config_file.empty()) arguments = {"--config", config_file};
    const app::ParseOutcome outcome = program_.parse(arguments, environment());
    if (!outcome.go_on) {
      std::string_view line = outcome.err;
      if (const std::string prefix = absl::StrCat(std::string(kProgram), ": "); line.starts_with(prefix))
        line.remove_prefix(prefix.size());
      while (line.ends_with('\n')) line.remove_suffix(1);
      return absl::InvalidArgumentError(std::string(line));
    }
    ycsb::OptionValues values;
    for (const Declared& declared : declared_)
      if (declared.option->is_set()) values.emplace_back(declared.name, declared.text());
    return values;
  }

 private:
  struct Declared {
    std::string name;
    const app::Option* option;
    std::function<std::string()> text;
  };

  app::Option& add(const char* name, app::Option& option, std::function<std::string()> text) {
    declared_.push_back({name, &option, std::move(text)});
    return option;
  }

  template <typename Value>
  void declare_setting(const char* name, Value* target, const char* help) {
    if constexpr (std::is_same_v<Value, std::string>) {
      add(name, program_.add_string(name, target, help), [target] { return *target; });
    } else if constexpr (std::is_same_v<Value, bool>) {
      add(name, program_.add_bool(name, target, help), [target] { return std::string(*target ? "true" : "false"); });
    } else {
      add(name, program_.add_int(name, target, help), [target] { return std::to_string(*target); });
    }
  }

  app::Program program_;
  std::string control_;
  std::string cert_;
  std::string key_;
  std::string ca_;
  std::string transport_ = "tcp";
  skua::rpc::DpdkSettings dpdk_;
  skua::rpc::VerbsSettings verbs_;
  std::vector<Declared> declared_;
};

/// The binding, with addresses judged as the other programs judge them.
absl::StatusOr<std::unique_ptr<ycsb::Binding>> make_skua(const ycsb::BindingContext& context) {
  std::string_view rest = context.properties.find("skua.control").value_or("127.0.0.1:7400");
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    const std::string_view address = rest.substr(0, comma);
    if (absl::Status status = app::check_address(address); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "skua.control (--control-address, SKUA_CONTROL_ADDRESS) ",
          address.empty() ? "" : absl::StrCat("\"", std::string(address), "\" "), std::string(status.message())));
    }
    more = comma != std::string_view::npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
  }
  return ycsb::skua_binding().make(context);
}

}  // namespace

int main(int argc, char** argv) {
  app::check_process(kProgram, app::kFilesOfClient);
  skua::control::silence_grpc_log();
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  ycsb::BindingEntry skua = ycsb::skua_binding();
  skua.make = &make_skua;
  const std::vector<ycsb::BindingEntry> bindings = {
      skua,
      ycsb::basic_binding(),
#ifdef SKUA_YCSB_HAS_REDIS
      ycsb::redis_binding(),
#endif
      ycsb::memcached_binding(),
      ycsb::rocksdb_binding(),
  };
  const ycsb::Surroundings surroundings = {
      .read_file = [](const std::string& path) { return app::read_file(path, kFileBytesMax); },
      .options = [](const std::string& config_file) { return SkuaOptions().read(config_file); },
      .check_threads = [](size_t count) { return app::check_threads("this run", count, ", or give fewer -threads"); },
  };
  const int code = ycsb::drive(arguments, bindings, surroundings, std::cout, std::cerr);
  return code == 0 ? app::finish_output(kProgram) : code;
}
