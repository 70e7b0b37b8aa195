#include "kvstore/c/options.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "app/value_text.h"
#include "kvstore/c/entry_point.h"
#include "rpc/base/nearest_name.h"
#include "rpc/base/status.h"

namespace skua::c {
namespace {

absl::Status refuse(std::string_view what, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("must be ", absl_view(what), ", not ", absl_view(text)));
}

absl::Status set_text(std::string_view text, std::string& to) {
  to.assign(text);
  return absl::OkStatus();
}

template <typename T, typename Parsed>
absl::Status set_parsed(const absl::StatusOr<Parsed>& value, T& to) {
  if (value.ok()) to = static_cast<T>(*value);
  return value.status();
}

/// The client checks the range. Here only that the number is one for the type.
template <typename T>
absl::Status set_int(std::string_view text, T& to) {
  const absl::StatusOr<int64_t> value = app::parse_int(text);
  if (!value.ok()) return value.status();
  if (*value < int64_t{std::numeric_limits<T>::min()} || *value > int64_t{std::numeric_limits<T>::max()}) {
    return refuse(absl::StrCat("from ", std::numeric_limits<T>::min(), " to ", std::numeric_limits<T>::max()), text);
  }
  to = static_cast<T>(*value);
  return absl::OkStatus();
}

absl::Status set_packets(std::string_view text, rpc::PacketProtection& to) {
  using enum rpc::PacketProtection;
  constexpr std::pair<std::string_view, rpc::PacketProtection> kNames[] = {
      {"default", kDefault}, {"off", kOff}, {"authenticate", kAuthenticate}, {"encrypt", kEncrypt}};
  const auto* const found = std::ranges::find(kNames, text, [](const auto& named) { return named.first; });
  if (found == std::end(kNames)) return refuse("default, off, authenticate or encrypt", text);
  to = found->second;
  return absl::OkStatus();
}

absl::Status set_grpc_log(std::string_view text, bool& keeps) {
  if (text != "off" && text != "keep") return refuse("off or keep", text);
  keeps = text == "keep";
  return absl::OkStatus();
}

absl::Status set_transport(std::string_view text, std::string& to) {
  if (text != "tcp" && text != "dpdk" && text != "verbs") return refuse("tcp, dpdk or verbs", text);
  return set_text(text, to);
}

struct NamedOption {
  std::string_view name;
  absl::Status (*set)(skua_options& options, std::string_view text);
};

constexpr NamedOption kOptions[] = {
    {"control-address", [](auto& to, auto text) { return set_text(text, to.client.control_address); }},
    {"cert", [](auto& to, auto text) { return set_text(text, to.client.credentials.certificate); }},
    {"key", [](auto& to, auto text) { return set_text(text, to.client.credentials.key); }},
    {"ca", [](auto& to, auto text) { return set_text(text, to.client.credentials.authorities); }},
    {"renew-certificate", [](auto& to, auto text) { return set_parsed(app::parse_bool(text), to.renews_certificate); }},
    {"packets", [](auto& to, auto text) { return set_packets(text, to.client.packets); }},
    {"timeout", [](auto& to, auto text) { return set_parsed(app::parse_duration(text), to.client.timeout); }},
    {"operations-max", [](auto& to, auto text) { return set_int(text, to.client.operations_max); }},
    {"session-window", [](auto& to, auto text) { return set_int(text, to.client.session_window); }},
    {"spin",
     [](auto& to, auto text) {
       to.has_spin = true;
       return set_parsed(app::parse_duration(text), to.client.spin);
     }},
    {"memory-limit",
     [](auto& to, auto text) { return set_parsed(app::parse_size(text), to.client.memory_limit_bytes); }},
    {"exactly-once", [](auto& to, auto text) { return set_parsed(app::parse_bool(text), to.client.exactly_once); }},
    {"transport", [](auto& to, auto text) { return set_transport(text, to.transport.transport); }},
    {"dpdk-clients", [](auto& to, auto text) { return set_int(text, to.transport.dpdk_clients); }},
    {"grpc-log", [](auto& to, auto text) { return set_grpc_log(text, to.keeps_grpc_log); }},
};

/// Calls take(name, pointer to the value, help) for each option of a device.
template <typename Take>
void for_each_device_option(TransportSettings& settings, Take take) {
  rpc::declare_dpdk_settings(settings.dpdk, take);
  rpc::declare_verbs_settings(settings.verbs, take);
}

/// nullopt: no option of a device has this name.
std::optional<absl::Status> set_device_option(TransportSettings& settings, std::string_view name,
                                              std::string_view text) {
  std::optional<absl::Status> result;
  for_each_device_option(settings, [&](std::string_view of, auto* value, const char*) {
    using Value = std::remove_pointer_t<decltype(value)>;
    if (of != name) return;
    if constexpr (std::is_same_v<Value, std::string>) {
      result = set_text(text, *value);
    } else if constexpr (std::is_same_v<Value, bool>) {
      result = set_parsed(app::parse_bool(text), *value);
    } else {
      result = set_int(text, *value);
    }
  });
  return result;
}

absl::Status no_such_option(std::string_view name) {
  std::vector<std::string> names;
  for (const NamedOption& option : kOptions) names.emplace_back(option.name);
  TransportSettings settings;
  for_each_device_option(settings, [&](const char* of, auto*, const char*) { names.emplace_back(of); });
  const std::optional<std::string> nearest = nearest_name(name, names);
  const std::string hint = nearest.has_value() ? absl::StrCat("; did you mean ", *nearest, "?") : std::string();
  return absl::InvalidArgumentError(absl::StrCat("there is no option ", absl_view(name), hint));
}

}  // namespace

absl::Status set_option(skua_options& options, std::string_view name, std::string_view value) {
  std::optional<absl::Status> result = set_device_option(options.transport, name, value);
  for (const NamedOption& option : kOptions) {
    if (option.name == name) result = option.set(options, value);
  }
  if (!result.has_value()) return no_such_option(name);
  if (result->ok()) return *result;
  return absl::InvalidArgumentError(absl::StrCat("option ", absl_view(name), " ", result->message()));
}

}  // namespace skua::c

skua_options* skua_options_create(void) {
  return new (std::nothrow) skua_options();
}

void skua_options_destroy(skua_options* options) {
  delete options;
}

skua_code skua_options_set(skua_options* options, const char* name, const char* value, skua_error* error) {
  using namespace skua::c;
  return report(error, without_exceptions([&] {
                  absl::Status status = check_not_null("options", options);
                  if (status.ok()) status = check_not_null("name", name);
                  if (status.ok()) status = check_not_null("value", value);
                  return status.ok() ? set_option(*options, name, value) : status;
                }));
}
