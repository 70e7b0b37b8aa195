#include "kvstore/gateway/gateway_starter.h"

#include <chrono>
#include <condition_variable>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/metrics_text.h"

namespace skua::kv::gateway {
namespace {

constexpr std::chrono::seconds kPause{1};

}  // namespace

GatewayStarter::GatewayStarter(GatewayOptions options, OnStarted on_started, OnWaiting on_waiting)
    : options_(std::move(options)), on_started_(std::move(on_started)), on_waiting_(std::move(on_waiting)) {}

void GatewayStarter::run(const std::stop_token& stop) {
  absl::Status told;
  std::condition_variable_any stopped;
  while (!stop.stop_requested()) {
    absl::StatusOr<std::unique_ptr<Gateway>> started = Gateway::start(options_);
    if (started.ok()) {
      on_started_((*started)->ports());
    } else if (std::exchange(told, started.status()) != started.status()) {
      on_waiting_(started.status());
    }
    std::unique_lock lock(mutex_);
    if (started.ok()) {
      gateway_ = *std::move(started);
      return;
    }
    stopped.wait_for(lock, stop, kPause, [&stop] { return stop.stop_requested(); });
  }
}

Gateway* GatewayStarter::serving() {
  const std::lock_guard lock(mutex_);
  return gateway_.get();
}

bool GatewayStarter::is_alive() {
  Gateway* const gateway = serving();
  return gateway == nullptr || gateway->is_alive();
}

std::string GatewayStarter::metrics() {
  Gateway* const gateway = serving();
  MetricsText out;
  out.single("skua_gateway_up", "1 if the gateway serves clients of Redis or memcached.", gateway == nullptr ? 0 : 1);
  return absl::StrCat(out.text(), gateway == nullptr ? "" : gateway->metrics());
}

}  // namespace skua::kv::gateway
