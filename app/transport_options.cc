#include "app/transport_options.h"

#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "app/config_internal.h"

namespace skua::app {
namespace {

/// Declares each setting as an option of its type.
auto declare_in(Command& command) {
  return [&command](const char* name, auto* target, const char* help) {
    using Value = std::remove_pointer_t<decltype(target)>;
    if constexpr (std::is_same_v<Value, std::string>) {
      command.add_string(name, target, help);
    } else if constexpr (std::is_same_v<Value, bool>) {
      command.add_bool(name, target, help);
    } else {
      command.add_int(name, target, help);
    }
  };
}

}  // namespace

void add_dpdk_options(Command& command, rpc::DpdkSettings* settings) {
  declare_dpdk_settings(*settings, declare_in(command));
}

void add_verbs_options(Command& command, rpc::VerbsSettings* settings) {
  declare_verbs_settings(*settings, declare_in(command));
}

void add_traffic_options(Command& command, rpc::TrafficSettings* settings) {
  using Settings = rpc::TrafficSettings;
  command.add_choice<rpc::CongestionControl>("congestion", &settings->congestion,
                                             {{"swift", rpc::CongestionControl::kSwift},
                                              {"timely", rpc::CongestionControl::kTimely},
                                              {"none", rpc::CongestionControl::kNone}},
                                             "What keeps this side's packets from filling the network (not over tcp).");
  command.add_duration("queue-target", &settings->queue_target_ns, "Queueing delay that swift allows.")
      .range(kMicrosecond, Settings::kDelayMax);
  command
      .add_int("link-gigabits-per-s", &settings->link_gigabits_per_s,
               "Speed of this side's link, from which receive budget and credits follow (not over tcp); 0: not given, "
               "which does for 100.")
      .range(0, Settings::kLinkGigabitsMax)
      .unit("Gbit/s");
  command
      .add_duration("path-delay", &settings->path_delay_ns,
                    "Round trip that --link-gigabits-per-s is to be kept busy over.")
      .range(kMicrosecond, Settings::kDelayMax);
  command.add_size("receive-budget", &settings->receive_budget_bytes,
                   "Response bytes under way to this side at a time; 0: --link-gigabits-per-s x --path-delay.");
}

absl::Status check_transport_flags(const Command& command, std::string_view chosen) {
  for (const Option* option : visible_options(command)) {
    const std::string& name = option->state().name;
    for (const std::string other : {"dpdk", "verbs"}) {
      if (option->origin() != Origin::kFlag || other == chosen || !name.starts_with(other + "-")) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " is for --transport ", other, ", and this is ", std::string(chosen)));
    }
  }
  return absl::OkStatus();
}

}  // namespace skua::app
