#include "control/server/control_server.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/uuid.h"
#include "control/server/certificate_services.h"
#include "control/server/control_health.h"
#include "control/server/control_services.h"
#include "control/server/controller_limits.h"
#include "control/server/grpc_listener.h"
#include "control/server/map_hub.h"
#include "rpc/base/printable.h"

namespace skua::control {
namespace {

ViewOptions views(const ControlServerOptions& options) {
  ViewOptions views;
  // Two heartbeats, and some time on the way.
  views.fresh_ns = options.heartbeat_interval_ms * kMillisecond * 5 / 2;
  views.replace_after_ns = options.replace_after_ms * kMillisecond;
  return views;
}

class RunningServer final : public ControlServer {
 public:
  RunningServer(const ControlServerOptions& options, std::unique_ptr<MetadataStore> store,
                std::unique_ptr<Election> election, const StateStore& state_store, ClusterState state)
      : credentials_(options.credentials),
        auditor_(options.auditor),
        log_(options.log),
        cluster_id_(state.cluster_id),
        cluster_name_(state.cluster_name),
        store_(std::move(store)),
        election_(std::move(election)),
        hub_(options.watches_per_host, options.credentials == nullptr ? 0 : kNodesMax),
        controller_({.core = {.suspect_after_ns = options.suspect_after_ms * kMillisecond, .views = views(options)},
                     .tick_ns = options.heartbeat_interval_ms * kMillisecond / 5 + kMillisecond,
                     .log = options.log,
                     .on_denied =
                         [this](uint64_t revision, const std::vector<std::string>& denied) {
                           if (credentials_ != nullptr) credentials_->deny_list().replace(revision, denied);
                         },
                     .alone = election_ == nullptr},
                    state_store, std::move(state), clock_, hub_,
                    options.make_probe ? options.make_probe() : make_node_probe(options.credentials)),
        services_(
            make_control_services({cluster_id_, cluster_name_, options.heartbeat_interval_ms, options.suspect_after_ms,
                                   options.credentials, options.auditor, options.issuer, options.security},
                                  controller_, hub_)),
        certificates_({cluster_id_, options.credentials, options.issuer, join_port_}),
        certificates_service_(make_certificates_service(certificates_, controller_)) {}

  ~RunningServer() override { RunningServer::shutdown(); }

  absl::Status listen_on(const std::string& address, const std::string& advertised) {
    // First the map, then the port: nobody can ask before there is an answer.
    controller_.start();
    grpc::ServerBuilder builder;
    for (const auto& service : services_) builder.RegisterService(service.get());
    builder.RegisterService(certificates_service_.get());
    auto listener = listen(builder, address, credentials_, auditor_, door_log());
    if (!listener.ok()) return listener.status();
    listener_ = *std::move(listener);
    if (election_ != nullptr) {
      election_->start(advertised.empty() ? listener_.address : advertised,
                       [this](const Leadership& leadership) { controller_.set_leadership(leadership); });
    }
    return absl::OkStatus();
  }

  /// Call it before listen_on(): tokens name the port.
  absl::Status take_joiners_on(const std::string& address) {
    joining_service_ = make_joining_service(certificates_, controller_);
    grpc::ServerBuilder builder;
    builder.RegisterService(joining_service_.get());
    builder.SetMaxReceiveMessageSize(kJoinMessageMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kJoinConnectionAgeMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kJoinConnectionAgeMs);
    auto listener = listen_with(builder, address, credentials_->for_joining(), auditor_,
                                {.calls_per_connection = kJoinCallsPerConnectionMax,
                                 .memory_max = kJoinMemoryMax,
                                 .whom = DoorFor::kStrangers,
                                 .log = door_log()});
    if (!listener.ok()) return listener.status();
    join_listener_ = *std::move(listener);
    join_port_->store(join_listener_.door->port());
    return absl::OkStatus();
  }

  const std::string& address() const override { return listener_.address; }
  const std::string& join_address() const override { return join_listener_.address; }
  const std::string& cluster_id() const override { return cluster_id_; }
  const std::string& cluster_name() const override { return cluster_name_; }

  std::string metrics() override { return health_.metrics(); }
  std::vector<HealthCheck> readiness() override { return health_.readiness(); }
  bool is_alive() override { return health_.is_alive(); }

  void shutdown() override {
    if (election_ != nullptr) election_->stop();
    hub_.close();
    controller_.stop();
    // Every call has its answer by now; idle connections need not be waited for.
    for (Listener* listener : {&listener_, &join_listener_}) {
      if (listener->server == nullptr) continue;
      listener->shut_down(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
    }
  }

 private:
  [[nodiscard]] DoorLog door_log() const {
    if (!log_) return {};
    return [log = log_](const std::string& line) { log(true, line); };
  }

  const CredentialsPtr credentials_;
  const std::shared_ptr<Auditor> auditor_;
  const LogFn log_;
  const std::string cluster_id_;
  const std::string cluster_name_;
  // In order of construction: each uses those above it.
  SteadyClock clock_;
  const std::unique_ptr<MetadataStore> store_;
  const std::unique_ptr<Election> election_;
  MapHub hub_;
  Controller controller_;
  ControlHealth health_{controller_, hub_, credentials_};
  const std::vector<std::unique_ptr<grpc::Service>> services_;
  const std::shared_ptr<std::atomic<uint16_t>> join_port_ = std::make_shared<std::atomic<uint16_t>>(0);
  const CertificateServiceOptions certificates_;
  const std::unique_ptr<grpc::Service> certificates_service_;
  std::unique_ptr<grpc::Service> joining_service_;
  Listener listener_;
  Listener join_listener_;
};

}  // namespace

absl::Status ControlServer::check(const ControlServerOptions& options) {
  if (!options.cluster.id.empty() && !is_uuid(options.cluster.id)) {
    return absl::InvalidArgumentError(absl::StrCat("cluster id \"", options.cluster.id,
                                                   "\" is not a lower-case UUID such as ", options.fresh_cluster_id,
                                                   ". Leave it away to have one made"));
  }
  if (options.cluster.name.size() > kClusterNameMax || printable(options.cluster.name) != options.cluster.name) {
    return absl::InvalidArgumentError(absl::StrCat("cluster name \"", printable(options.cluster.name, kClusterNameMax),
                                                   "\" is not up to ", kClusterNameMax, " printable characters"));
  }
  if (options.heartbeat_interval_ms == 0 || options.suspect_after_ms < 2 * options.heartbeat_interval_ms) {
    return absl::InvalidArgumentError(absl::StrCat("nodes would be suspected after ", options.suspect_after_ms,
                                                   " ms with a heartbeat every ", options.heartbeat_interval_ms,
                                                   " ms. Choose at least twice the heartbeat interval"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::start(const ControlServerOptions& options,
                                                                    std::unique_ptr<MetadataStore> store,
                                                                    std::unique_ptr<Election> election) {
  if (auto status = check(options); !status.ok()) return status;
  StateStore state_store(*store);
  auto state = state_store.load_or_create(options.cluster, options.fresh_cluster_id);
  if (!state.ok()) return state.status();
  auto server =
      std::make_unique<RunningServer>(options, std::move(store), std::move(election), state_store, *std::move(state));
  if (options.issuer != nullptr) {
    if (auto status = server->take_joiners_on(options.join_address); !status.ok()) return status;
  }
  if (auto status = server->listen_on(options.listen_address, options.advertise_address); !status.ok()) return status;
  return server;
}

}  // namespace skua::control
