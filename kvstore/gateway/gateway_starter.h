// GatewayStarter: a gateway that starts as soon as it can. For skuad: its node must not wait for tables that nobody has
// made yet.
//
//   starting --Gateway::start()--> serving
//      ^  |
//      +--+ failed: again after a second
#ifndef SKUA_KVSTORE_GATEWAY_GATEWAY_STARTER_H_
#define SKUA_KVSTORE_GATEWAY_GATEWAY_STARTER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/gateway/gateway.h"

namespace skua::kv::gateway {

/// Thread: any.
class GatewayStarter {
 public:
  /// `ports`: where clients connect, in the order of the entrances. Called once, on the starter's thread.
  using OnStarted = std::function<void(const std::vector<uint16_t>& ports)>;
  /// Why the gateway does not serve yet. Called on the starter's thread, and not again for the same reason.
  using OnWaiting = std::function<void(const absl::Status& why)>;

  /// The destructor stops the gateway, as Gateway::stop() does.
  GatewayStarter(GatewayOptions options, OnStarted on_started, OnWaiting on_waiting);
  GatewayStarter(const GatewayStarter&) = delete;
  GatewayStarter& operator=(const GatewayStarter&) = delete;

  /// True also while the gateway does not serve yet.
  [[nodiscard]] bool is_alive();
  /// In Prometheus' text format. skua_gateway_up says whether the gateway serves.
  [[nodiscard]] std::string metrics();

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] Gateway* serving();

  const GatewayOptions options_;
  const OnStarted on_started_;
  const OnWaiting on_waiting_;
  std::mutex mutex_;
  std::unique_ptr<Gateway> gateway_;  // protected by mutex_ until it is there, and constant then
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GATEWAY_STARTER_H_
