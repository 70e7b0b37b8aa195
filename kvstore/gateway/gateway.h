// Gateway: serves clients of Redis's and memcached's protocols from tables of a cluster, on threads of its own or on
// those of a node's workers.
#ifndef SKUA_KVSTORE_GATEWAY_GATEWAY_H_
#define SKUA_KVSTORE_GATEWAY_GATEWAY_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/client/types.h"
#include "kvstore/gateway/client_security.h"
#include "kvstore/gateway/gateway_context.h"
#include "kvstore/gateway/gateway_thread.h"
#include "kvstore/gateway/password_checker.h"
#include "rpc/base/health_check.h"

namespace skua::kv {
class Admin;
}  // namespace skua::kv

namespace skua::kv::gateway {

inline constexpr std::chrono::seconds kHealthTimeout{2};

/// Where clients connect, and how they are understood there.
struct EntranceOptions {
  ClientProtocol protocol = ClientProtocol::kResp;
  std::string host{};
  /// 0: the system chooses one.
  uint16_t port = 0;
  /// The one that clients begin with; of GatewayOptions::databases.
  uint32_t database = 0;
};

struct GatewayOptions : GatewaySettings {
  /// At least one, and at most one for each protocol.
  std::vector<EntranceOptions> entrances{};
  /// Runs one of the loops, of `threads`, on a thread of somebody else's; the future is ready when the loop has ended.
  /// Empty: the gateway has threads of its own.
  std::function<absl::StatusOr<std::future<void>>(uint32_t index, HostedLoop& loop)> host{};
  /// Asked before anything is made. Not OK: there is nobody yet who could run a loop; start() fails. Empty: OK.
  std::function<absl::Status()> check_host{};
  /// The way to the cluster.
  ClientOptions client{};
  /// metrics() has the time at which the certificate of `client` expires. Not if the program tells it elsewhere.
  bool tells_certificate_expiry = true;
  /// How clients are known, and what they are shown. None: whoever connects may do everything, without TLS.
  ClientSecurityFiles client_security{};
};

/// Thread: any, one at a time.
class Gateway {
 public:
  /// Listens, and serves from then on. Errors: UNAVAILABLE or DEADLINE_EXCEEDED (no control plane answers), NOT_FOUND
  /// (a table does not exist), FAILED_PRECONDITION (the port is in use, a file about clients makes no sense), those of
  /// AsyncClient::create().
  static absl::StatusOr<std::unique_ptr<Gateway>> start(const GatewayOptions& options);
  /// Calls stop().
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  /// Of the entrances, in the order of the options.
  [[nodiscard]] const std::vector<uint16_t>& ports() const { return ports_; }
  [[nodiscard]] const GatewayIdentity& identity() const { return identity_; }
  /// For operators. Thread: any; no later than stop(). metrics(): in Prometheus' text format. metrics() and readiness()
  /// ask the control plane, and wait for kHealthTimeout at most. is_alive(): whether each thread goes through its
  /// loop; waits for each, for as long. readiness(): the same. A gateway that has started knows its tables, and goes on
  /// with its map while the control plane is away; were it not ready then, a control plane that is away would take all
  /// gateways out of service.
  [[nodiscard]] std::string metrics();
  [[nodiscard]] std::vector<HealthCheck> readiness();
  [[nodiscard]] bool is_alive();
  /// Commands that were read are answered, for a few seconds at most; then all connections end.
  void stop();

 private:
  Gateway();
  [[nodiscard]] absl::Status ask_control_plane();
  absl::Status run_threads(const GatewayOptions& options);
  absl::Status make_threads(const GatewayOptions& options, const ClientSecurity& security);
  void watch_files(const GatewayOptions& options, ClientSecurity now);
  absl::StatusOr<std::vector<Entrance>> make_entrances(const GatewayOptions& options);
  void note_certificate(const ClientSecurity& security);

  GatewayIdentity identity_;
  std::mutex admin_mutex_;
  std::unique_ptr<Admin> admin_;           // protected by admin_mutex_
  std::string certificate_file_;           // that the cluster is shown; empty: none
  std::atomic<int64_t> tls_expires_s_{0};  // of the certificate that clients are shown; 0: none
  std::vector<uint16_t> ports_;
  std::unique_ptr<PasswordChecker> passwords_;  // null: there are no users. It calls threads_
  std::vector<std::unique_ptr<GatewayThread>> threads_;
  std::vector<std::future<void>> running_;      // ready when the loop of a thread has ended
  std::unique_ptr<ClientSecurityWatch> watch_;  // null: there are no files. It calls threads_
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GATEWAY_H_
