// What skua-control says of itself: metrics, and whether it lives and may get work. The control thread makes the figures;
// who asks waits for them, for a limited time.
#ifndef SKUA_CONTROL_SERVER_CONTROL_HEALTH_H_
#define SKUA_CONTROL_SERVER_CONTROL_HEALTH_H_

#include <array>
#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "control/core/cluster_core.h"
#include "control/security/credentials.h"
#include "control/server/controller.h"
#include "control/server/map_hub.h"
#include "rpc/base/clock.h"
#include "rpc/base/health_check.h"

namespace skua::control {

inline constexpr size_t kLivenessCount = 4;
inline constexpr DurationNs kControlAnswerTimeoutNs = 2 * kSecond;
/// A control thread that has not gone on for so long hangs. A call of etcd may take two seconds, and a command may need
/// several.
inline constexpr DurationNs kControlHangsAfterNs = 30 * kSecond;

/// What the control thread knows at one moment. All but `leading` and `is_store_reachable` is of the process that
/// leads.
struct ControlFigures {
  /// OK: this process leads. Otherwise not_leading(): control/proto/redirect.h.
  absl::Status leading;
  bool is_store_reachable = true;
  uint64_t map_revision = 0;
  std::array<uint64_t, kLivenessCount> nodes{};  // by Liveness
  uint64_t tables = 0;
  uint64_t shards = 0;
  uint64_t available_shards = 0;
  uint64_t settled_shards = 0;
};

/// Empty figures: the control thread did not answer. `certificate_expires_s`: of this process; nothing: it has none
/// that can be read. Pure.
[[nodiscard]] std::string format_control_metrics(const std::optional<ControlFigures>& figures, uint64_t watchers,
                                                 std::optional<WallSeconds> certificate_expires_s = std::nullopt);
[[nodiscard]] std::vector<HealthCheck> control_readiness(const std::optional<ControlFigures>& figures);

/// Thread: any. Those who ask at the same time wait for each other. The controller and the hub must outlive it.
/// `credentials`: null: the process has no certificate.
class ControlHealth {
 public:
  ControlHealth(Controller& controller, MapHub& hub, CredentialsPtr credentials = nullptr,
                DurationNs timeout_ns = kControlAnswerTimeoutNs)
      : controller_(controller), hub_(hub), credentials_(std::move(credentials)), timeout_ns_(timeout_ns) {}

  /// Whether the control thread goes on. Waits for nothing and puts nothing into its queue: a queue that is full, or a
  /// metadata store that is slow, is no reason to start the program again.
  [[nodiscard]] bool is_alive() const {
    return controller_.now_ns() - controller_.last_step_ns() < kControlHangsAfterNs;
  }
  [[nodiscard]] std::vector<HealthCheck> readiness() { return control_readiness(look()); }
  [[nodiscard]] std::string metrics();

 private:
  /// Empty: the control thread did not answer in time. Its queue has one question of this object at most.
  std::optional<ControlFigures> look();

  Controller& controller_;
  MapHub& hub_;
  const CredentialsPtr credentials_;
  const DurationNs timeout_ns_;
  std::mutex mutex_;
  std::future<ControlFigures> asked_;  // protected by mutex_
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROL_HEALTH_H_
