#include "kvstore/c/transports.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/c/origin.h"

namespace skua::c {
namespace {

/// Plug-ins are asked by one thread at a time.
absl::StatusOr<kv::TransportMaker> start(const TransportSettings& settings) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  absl::StatusOr<const TransportPlugin*> plugin = load_plugin(settings.transport, plugin_folder());
  if (!plugin.ok()) return plugin.status();
  return (*plugin)->start(settings);
}

/// All options of DPDK with their values.
std::map<std::string, std::string> values_of(TransportSettings settings) {
  std::map<std::string, std::string> values{{"dpdk-clients", absl::StrCat(settings.dpdk_clients)}};
  rpc::declare_dpdk_settings(
      settings.dpdk, [&](const char* name, auto* value, const char*) { values.emplace(name, absl::StrCat(*value)); });
  return values;
}

/// The first option whose value differs; empty: none.
std::string difference(const TransportSettings& one, const TransportSettings& other) {
  const std::map<std::string, std::string> values = values_of(other);
  for (const auto& [name, value] : values_of(one)) {
    if (values.at(name) != value) return name;
  }
  return "";
}

/// DPDK in this process. Thread: any.
class ProcessDpdk {
 public:
  absl::StatusOr<kv::TransportMaker> maker(const TransportSettings& settings) {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("DPDK can be started once in a process, and did not start before: ", failure_.message()));
    }
    return maker_ == nullptr ? first(settings) : later(settings);
  }

  /// Closes the devices, unless a client still has them. A child of fork() leaves them alone: they are the parent's.
  ~ProcessDpdk() {
    if (fork_count_ != fork_count()) static_cast<void>(maker_.release());
  }

 private:
  absl::StatusOr<kv::TransportMaker> first(const TransportSettings& settings) {
    absl::StatusOr<const TransportPlugin*> plugin = load_plugin(settings.transport, plugin_folder());
    if (!plugin.ok()) return plugin.status();
    absl::StatusOr<kv::TransportMaker> made = (*plugin)->start(settings);
    // Bad settings are found before DPDK is started.
    if (!made.ok() && !absl::IsInvalidArgument(made.status())) failure_ = made.status();
    if (!made.ok()) return made.status();
    maker_ = std::make_unique<const kv::TransportMaker>(*std::move(made));
    settings_ = settings;
    fork_count_ = fork_count();
    return *maker_;
  }

  absl::StatusOr<kv::TransportMaker> later(const TransportSettings& settings) {
    if (fork_count_ != fork_count()) {
      return absl::FailedPreconditionError("DPDK was started before fork(): use it in one process only");
    }
    const std::string different = difference(settings_, settings);
    if (different.empty()) return *maker_;
    return absl::InvalidArgumentError(
        absl::StrCat("clients of a process share DPDK: the option ", different, " must be that of the first client"));
  }

  std::mutex mutex_;
  absl::Status failure_;
  TransportSettings settings_;
  uint32_t fork_count_ = 0;
  std::unique_ptr<const kv::TransportMaker> maker_;
};

}  // namespace

absl::StatusOr<kv::TransportMaker> transport_maker(const TransportSettings& settings) {
  if (settings.transport == "tcp") return kv::TransportMaker();
  if (settings.transport != "dpdk") return start(settings);
  begin_to_count_forks();
  static ProcessDpdk dpdk;
  return dpdk.maker(settings);
}

}  // namespace skua::c
