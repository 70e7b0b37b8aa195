// skua-control without its main(): store, control thread and gRPC server put together. Tests run
// several in one process.
#ifndef SKUA_CONTROL_SERVER_CONTROL_SERVER_H_
#define SKUA_CONTROL_SERVER_CONTROL_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/core/program_security.h"
#include "control/security/auditor.h"
#include "control/security/certificate_issuer.h"
#include "control/security/credentials.h"
#include "control/server/controller.h"
#include "control/server/controller_limits.h"
#include "control/server/node_probe.h"
#include "control/server/state_store.h"
#include "control/store/election.h"
#include "control/store/metadata_store.h"
#include "rpc/base/health_check.h"

namespace skua::control {

struct ControlServerOptions {
  /// "host:port"; port 0 takes a free one.
  std::string listen_address = "127.0.0.1:7400";
  /// Where others reach it, for those who ask a process that does not lead; empty: listen_address.
  std::string advertise_address;
  /// What to show callers and nodes; null: without TLS.
  CredentialsPtr credentials;
  /// Whom it lets in, for the status.
  ProgramSecurity security{};
  /// Issues certificates to those who may have one; null: none are issued. Needs credentials.
  std::shared_ptr<const CertificateIssuer> issuer;
  /// Where those join who have no certificate yet; used with an issuer.
  std::string join_address = "127.0.0.1:0";
  /// What the cluster is meant to be; empty fields accept what is stored.
  ClusterIdentity cluster;
  /// The id of a cluster that is created and has none in `cluster`. Must be a fresh random UUID.
  std::string fresh_cluster_id;
  /// What nodes are told; suspect_after should be several times the interval.
  uint32_t heartbeat_interval_ms = 500;
  uint32_t suspect_after_ms = 3000;
  /// How long a shard waits for a lost member before another node gets a copy.
  uint32_t replace_after_ms = 30'000;
  /// Clients and nodes of one host that may watch the shard map.
  size_t watches_per_host = kWatchersPerSourceMax;
  /// What asks nodes who they are before they are registered; empty: make_node_probe.
  std::function<std::unique_ptr<NodeProbe>()> make_probe;
  LogFn log;
  /// Hears of administration and of refusals; null: nobody does.
  std::shared_ptr<Auditor> auditor;
};

/// Serves until destroyed. Thread: any.
class ControlServer {
 public:
  virtual ~ControlServer() = default;

  /// What can be said of the options before anything is opened: INVALID_ARGUMENT. start() says it, too.
  static absl::Status check(const ControlServerOptions& options);

  /// Loads or creates the cluster in `store` and serves it; with an election, while it leads. Errors say what to do:
  /// FAILED_PRECONDITION (another cluster's data), ALREADY_EXISTS (port in use), INVALID_ARGUMENT,
  /// PERMISSION_DENIED, DATA_LOSS, UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<ControlServer>> start(const ControlServerOptions& options,
                                                              std::unique_ptr<MetadataStore> store,
                                                              std::unique_ptr<Election> election = nullptr);

  /// The address with the real port.
  [[nodiscard]] virtual const std::string& address() const = 0;
  /// Where those join who have no certificate yet; empty: nowhere.
  [[nodiscard]] virtual const std::string& join_address() const = 0;
  [[nodiscard]] virtual const std::string& cluster_id() const = 0;
  [[nodiscard]] virtual const std::string& cluster_name() const = 0;

  /// For operators. metrics(): in Prometheus' text format. readiness(): whether it leads or follows a leader, and the
  /// metadata can be reached. Both wait for the control thread, for kControlAnswerTimeoutNs at most. is_alive(): whether
  /// the control thread went on within kControlHangsAfterNs; waits for nothing.
  [[nodiscard]] virtual std::string metrics() = 0;
  [[nodiscard]] virtual std::vector<HealthCheck> readiness() = 0;
  [[nodiscard]] virtual bool is_alive() = 0;

  /// Closes watches, answers what is queued, stops listening. Idempotent; also done by the
  /// destructor.
  virtual void shutdown() = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROL_SERVER_H_
