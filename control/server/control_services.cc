#include "control/server/control_services.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_progress.h"
#include "control/core/identity_rules.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/proto/requests.h"
#include "control/security/credentials.h"
#include "control/server/cluster_service.h"
#include "control/server/cluster_status.h"
#include "control/server/controller_limits.h"
#include "control/server/finish_call.h"
#include "control/server/nameless_callers.h"
#include "control/server/peer_host.h"

namespace skua::control {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

/// Cluster and protocol that a client expects, checked against ours.
absl::Status check_client(const CallbackServerContext& context, const ServiceOptions& options,
                          const std::string& cluster_id, const v1::VersionRange& versions) {
  const std::string who = absl::StrCat("client ", context.peer());
  if (auto status = check_versions(who, from_proto(versions)); !status.ok()) return status;
  ClusterState ours;
  ours.cluster_id = options.cluster_id;
  ours.cluster_name = options.cluster_name;
  return check_cluster(who, cluster_id, ours);
}

/// What more is asked of who comes without a certificate to a control plane that takes them.
Controller::CheckFn check_of(const CallbackServerContext& context, const CredentialsPtr& credentials) {
  return takes_plaintext(credentials) && !peer_identity(*context.auth_context()) ? check_nameless : nullptr;
}

int64_t unix_ms() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class MembershipService final : public v1::Membership::CallbackService {
 public:
  MembershipService(ServiceOptions options, Controller& controller)
      : options_(std::move(options)), controller_(controller) {}

  ServerUnaryReactor* Register(CallbackServerContext* context, const v1::RegisterRequest* request,
                               v1::RegisterReply* reply) override {
    auto* reactor = context->DefaultReactor();
    const NodeInfo node = from_proto(request->node());
    if (absl::Status self = check_node_is(*context->auth_context(), node.uuid); !self.ok()) {
      return queued(context, reactor, self);
    }
    return queued(context, reactor,
                  controller_.submit(
                      from_proto(*request),
                      [this, context, reactor, reply, node](const Decision& decision, const ClusterCore& core) {
                        reply->set_cluster_id(options_.cluster_id);
                        reply->set_cluster_name(options_.cluster_name);
                        reply->set_version(negotiate(kProtocolVersions, node.versions).value_or(0));
                        reply->set_map_revision(core.state().map_revision);
                        reply->set_heartbeat_interval_ms(options_.heartbeat_interval_ms);
                        reply->set_suspect_after_ms(options_.suspect_after_ms);
                        finish(context, reactor, decision.status);
                      },
                      peer_host(context->peer()), peer_principal(*context->auth_context()),
                      check_of(*context, options_.credentials)));
  }

  ServerUnaryReactor* Heartbeat(CallbackServerContext* context, const v1::HeartbeatRequest* request,
                                v1::HeartbeatReply* reply) override {
    auto* reactor = context->DefaultReactor();
    if (absl::Status self = check_node_is(*context->auth_context(), request->uuid()); !self.ok()) {
      return queued(context, reactor, self);
    }
    return queued(
        context, reactor,
        controller_.submit(from_proto(*request, unix_ms()),
                           [context, reactor, request, reply](const Decision& decision, const ClusterCore& core) {
                             reply->set_map_revision(core.state().map_revision);
                             reply->set_unix_ms(unix_ms());
                             if (request->yielding() && decision.status.ok()) {
                               const YieldProgress progress = yield_progress(core.context(), request->uuid());
                               reply->set_yield_left(static_cast<uint32_t>(progress.left));
                               reply->set_yield_lags(progress.lags);
                             }
                             finish(context, reactor, decision.status);
                           }));
  }

  ServerUnaryReactor* ReportReplicas(CallbackServerContext* context, const v1::ReportReplicasRequest* request,
                                     v1::ReportReplicasReply* reply) override {
    auto* reactor = context->DefaultReactor();
    if (absl::Status self = check_node_is(*context->auth_context(), request->uuid()); !self.ok()) {
      return queued(context, reactor, self);
    }
    auto report = from_proto(*request);
    if (!report.ok()) return queued(context, reactor, report.status());
    return queued(context, reactor,
                  controller_.submit(
                      *std::move(report),
                      [context, reactor, reply](const Decision& decision, const ClusterCore& core) {
                        reply->set_map_revision(core.state().map_revision);
                        finish(context, reactor, decision.status);
                      },
                      peer_host(context->peer()), peer_principal(*context->auth_context())));
  }

  ServerUnaryReactor* Leave(CallbackServerContext* context, const v1::LeaveRequest* request,
                            v1::LeaveReply* reply) override {
    auto* reactor = context->DefaultReactor();
    if (absl::Status self = check_node_is(*context->auth_context(), request->uuid()); !self.ok()) {
      return queued(context, reactor, self);
    }
    return queued(context, reactor,
                  controller_.submit(
                      from_proto(*request),
                      [context, reactor, reply](const Decision& decision, const ClusterCore& core) {
                        reply->set_map_revision(core.state().map_revision);
                        finish(context, reactor, decision.status);
                      },
                      peer_host(context->peer()), peer_principal(*context->auth_context())));
  }

 private:
  const ServiceOptions options_;
  Controller& controller_;
};

WatcherKind kind_of(const std::optional<Identity>& watcher) {
  if (!watcher) return WatcherKind::kAnonymous;
  return watcher->role == Role::kNode ? WatcherKind::kNode : WatcherKind::kClient;
}

/// Whom the bound for one host counts: a node for itself, so that no client beside it takes its place.
std::string source_of(const CallbackServerContext& context, const std::optional<Identity>& watcher) {
  return kind_of(watcher) == WatcherKind::kNode ? watcher->principal() : peer_network(context.peer());
}

/// One WatchShardMap call. See MapHub for what it promises.
///
///    offer ──> waiting_ ──(nothing on its way)──> on_its_way_ ──StartWrite──> OnWriteDone
///                 ^                                                             │
///                 └──────────────────────── next, if there is one <─────────────┘
///
/// gRPC's operations are started outside the lock; `busy_` makes sure that only one is.
class MapStream final : public grpc::ServerWriteReactor<v1::WatchShardMapReply>, public MapWatcher {
 public:
  /// Keeps itself alive until gRPC is done with it.
  static MapStream* open(CallbackServerContext& context, MapHub& hub, const CredentialsPtr& credentials,
                         uint64_t after_revision) {
    auto stream = std::shared_ptr<MapStream>(new MapStream(context, hub));
    stream->self_ = stream;
    stream->credentials_ = credentials;
    stream->watcher_ = peer_identity(*context.auth_context());
    const auto key = hub.add(stream, after_revision, source_of(context, stream->watcher_), kind_of(stream->watcher_));
    MapStream* raw = stream.get();
    if (key.ok()) {
      raw->key_ = *key;
    } else {
      raw->end(key.status());
    }
    return raw;
  }

  /// A call that is refused before it begins.
  static MapStream* refuse(CallbackServerContext& context, MapHub& hub, const absl::Status& status) {
    auto stream = std::shared_ptr<MapStream>(new MapStream(context, hub));
    stream->self_ = stream;
    stream->end(status);
    return stream.get();
  }

  void offer(const MapMessage& map) override {
    // The list of who is revoked is never older than the map. A watcher that was let in just before is judged here,
    // too.
    const bool known = credentials_ != nullptr && watcher_.has_value();
    const absl::Status allowed = known ? credentials_->deny_list().check(*watcher_) : absl::OkStatus();
    if (!allowed.ok()) return cut_off(allowed);
    {
      std::lock_guard lock(mutex_);
      // An empty first message must not displace a map that overtook it.
      const uint64_t revision = map->map().revision();
      if (ended_ || (offered_ && revision <= newest_)) return;
      offered_ = true;
      newest_ = revision;
      waiting_ = map;
    }
    advance();
  }

  void close(const absl::Status& why) override { end(why); }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      busy_ = false;
      on_its_way_.reset();
    }
    if (!ok) end(absl::CancelledError("the client went away"));
    advance();
  }

  void OnCancel() override { end(absl::CancelledError("cancelled by the client")); }

  void OnDone() override {
    if (key_ != 0) hub_.remove(key_);
    // May destroy this object: nothing after it.
    const std::shared_ptr<MapStream> last = std::move(self_);
  }

 private:
  MapStream(CallbackServerContext& context, MapHub& hub) : context_(context), hub_(hub) {}

  /// As end(), but does not wait for a reader that does not read.
  void cut_off(const absl::Status& why) {
    end(why);
    {
      std::lock_guard lock(mutex_);
      if (!busy_ || finished_ || cancelling_) return;
      cancelling_ = true;  // the call is not finished meanwhile, so its context is there
    }
    context_.TryCancel();
    {
      std::lock_guard lock(mutex_);
      cancelling_ = false;
    }
    advance();
  }

  void end(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
      status_ = status;
      waiting_.reset();
    }
    advance();
  }

  /// Starts the next write, or finishes the call, unless an operation is on its way.
  void advance() {
    bool finish = false;
    {
      std::lock_guard lock(mutex_);
      if (busy_ || finished_ || cancelling_) return;
      if (ended_) {
        finish = finished_ = true;
      } else if (waiting_ != nullptr) {
        on_its_way_ = std::move(waiting_);
        waiting_.reset();
      } else {
        return;
      }
      busy_ = true;
    }
    if (finish) {
      name_leader(context_, status_);
      Finish(to_grpc(status_));
    } else {
      StartWrite(on_its_way_.get());
    }
  }

  CallbackServerContext& context_;
  MapHub& hub_;
  CredentialsPtr credentials_;
  std::optional<Identity> watcher_;
  uint64_t key_ = 0;
  std::shared_ptr<MapStream> self_;

  std::mutex mutex_;
  // Protected by mutex_; on_its_way_ and status_ do not change while an operation reads them.
  MapMessage waiting_;
  MapMessage on_its_way_;
  uint64_t newest_ = 0;
  bool offered_ = false;
  absl::Status status_;
  bool busy_ = false;
  bool ended_ = false;
  bool finished_ = false;
  bool cancelling_ = false;
};

class ShardMapService final : public v1::ShardMap::CallbackService {
 public:
  ShardMapService(ServiceOptions options, MapHub& hub) : options_(std::move(options)), hub_(hub) {}

  ServerUnaryReactor* GetShardMap(CallbackServerContext* context, const v1::GetShardMapRequest* request,
                                  v1::GetShardMapReply* reply) override {
    auto* reactor = context->DefaultReactor();
    absl::Status status = check_client(*context, options_, request->cluster_id(), request->versions());
    const MapMessage map = hub_.current();
    if (status.ok() && map == nullptr) status = hub_.refusal();
    if (status.ok()) *reply->mutable_map() = map->map();
    finish(context, reactor, status);
    return reactor;
  }

  grpc::ServerWriteReactor<v1::WatchShardMapReply>* WatchShardMap(CallbackServerContext* context,
                                                                  const v1::WatchShardMapRequest* request) override {
    const absl::Status status = check_client(*context, options_, request->cluster_id(), request->versions());
    if (!status.ok()) return MapStream::refuse(*context, hub_, status);
    return MapStream::open(*context, hub_, options_.credentials, request->after_revision());
  }

 private:
  const ServiceOptions options_;
  MapHub& hub_;
};

class TablesService final : public v1::Tables::CallbackService {
 public:
  TablesService(ServiceOptions options, Controller& controller, std::shared_ptr<StatusDesk> status)
      : options_(std::move(options)), controller_(controller), status_(std::move(status)) {}

  ServerUnaryReactor* CreateTable(CallbackServerContext* context, const v1::CreateTableRequest* request,
                                  v1::CreateTableReply* reply) override {
    auto* reactor = context->DefaultReactor();
    const uint32_t wait_ms = std::min(request->wait_ready_ms(), kWaitReadyMsMax);
    return queued(context, reactor,
                  controller_.submit(
                      from_proto(*request),
                      [this, context, reactor, reply, wait_ms](const Decision& decision, const ClusterCore& core) {
                        if (!decision.status.ok()) {
                          finish(context, reactor, decision.status);
                          return;
                        }
                        fill(*reply->mutable_table(), *decision.table, core);
                        reply->set_created(!decision.changes.empty());
                        reply->set_map_revision(core.state().map_revision);
                        controller_.when_ready(decision.table->id, core.state().map_revision,
                                               controller_.now_ns() + wait_ms * kMillisecond,
                                               [reactor, reply](const std::vector<std::string>& lagging) {
                                                 reply->set_ready(lagging.empty());
                                                 for (const auto& uuid : lagging) reply->add_waiting_for(uuid);
                                                 reactor->Finish(grpc::Status::OK);
                                               });
                      },
                      peer_host(context->peer()), peer_principal(*context->auth_context())));
  }

  ServerUnaryReactor* ListTables(CallbackServerContext* context, const v1::ListTablesRequest*,
                                 v1::ListTablesReply* reply) override {
    auto* reactor = context->DefaultReactor();
    status_->ask_tables([context, reactor, reply](const absl::StatusOr<StatusMessage>& status) {
      if (status.ok()) {
        *reply->mutable_tables() = (*status)->tables();
        reply->set_map_revision((*status)->map_revision());
      }
      finish(context, reactor, status.status());
    });
    return reactor;
  }

  ServerUnaryReactor* DropTable(CallbackServerContext* context, const v1::DropTableRequest* request,
                                v1::DropTableReply* reply) override {
    auto* reactor = context->DefaultReactor();
    return queued(context, reactor,
                  controller_.submit(
                      from_proto(*request),
                      [context, reactor, reply](const Decision& decision, const ClusterCore& core) {
                        if (decision.table) fill(*reply->mutable_table(), *decision.table, core);
                        reply->set_map_revision(core.state().map_revision);
                        finish(context, reactor, decision.status);
                      },
                      peer_host(context->peer()), peer_principal(*context->auth_context()),
                      check_of(*context, options_.credentials)));
  }

 private:
  const ServiceOptions options_;
  Controller& controller_;
  const std::shared_ptr<StatusDesk> status_;
};

/// What may be wrong with the parts of this process.
std::vector<StatusDesk::TroubleFn> troubles_of(const ServiceOptions& options) {
  std::vector<StatusDesk::TroubleFn> troubles;
  if (options.credentials != nullptr) {
    troubles.emplace_back([own = options.credentials] { return own->trouble(std::time(nullptr)); });
  }
  if (options.issuer != nullptr) {
    troubles.emplace_back([issuer = options.issuer] { return issuer->trouble(std::time(nullptr)); });
  }
  if (options.auditor != nullptr) troubles.emplace_back([auditor = options.auditor] { return auditor->trouble(); });
  return troubles;
}

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> make_control_services(const ServiceOptions& options, Controller& controller,
                                                                  MapHub& hub) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<MembershipService>(options, controller));
  services.push_back(std::make_unique<ShardMapService>(options, hub));
  const auto status = std::make_shared<StatusDesk>(controller, hub, options.security, troubles_of(options));
  services.push_back(std::make_unique<TablesService>(options, controller, status));
  services.push_back(make_cluster_service(options, controller, status));
  return services;
}

}  // namespace skua::control
