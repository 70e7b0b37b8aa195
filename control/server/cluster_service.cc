#include "control/server/cluster_service.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/requests.h"
#include "control/security/credentials.h"
#include "control/server/call_audit.h"
#include "control/server/finish_call.h"
#include "control/server/peer_host.h"

namespace skua::control {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

class ClusterService final : public v1::Cluster::CallbackService {
 public:
  ClusterService(ServiceOptions options, Controller& controller, std::shared_ptr<StatusDesk> status)
      : options_(std::move(options)), controller_(controller), status_(std::move(status)) {}

  ServerUnaryReactor* GetStatus(CallbackServerContext* context, const v1::GetStatusRequest*,
                                v1::GetStatusReply* reply) override {
    auto* reactor = context->DefaultReactor();
    status_->ask([context, reactor, reply](const absl::StatusOr<StatusMessage>& status) {
      if (status.ok()) *reply = **status;
      finish(context, reactor, status.status());
    });
    return reactor;
  }

  ServerUnaryReactor* DrainNode(CallbackServerContext* context, const v1::DrainNodeRequest* request,
                                v1::ChangeReply* reply) override {
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* UndrainNode(CallbackServerContext* context, const v1::UndrainNodeRequest* request,
                                  v1::ChangeReply* reply) override {
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* MoveShard(CallbackServerContext* context, const v1::MoveShardRequest* request,
                                v1::ChangeReply* reply) override {
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* TransferPrimary(CallbackServerContext* context, const v1::TransferPrimaryRequest* request,
                                      v1::ChangeReply* reply) override {
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* RecoverShard(CallbackServerContext* context, const v1::RecoverShardRequest* request,
                                   v1::ChangeReply* reply) override {
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* RevokeIdentity(CallbackServerContext* context, const v1::RevokeIdentityRequest* request,
                                     v1::ChangeReply* reply) override {
    if (absl::Status status = check_revocable(*context, request->principal()); !status.ok()) {
      return queued(context, context->DefaultReactor(), status);
    }
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* UnrevokeIdentity(CallbackServerContext* context, const v1::UnrevokeIdentityRequest* request,
                                       v1::ChangeReply* reply) override {
    if (absl::Status status = check_named(*context, "UnrevokeIdentity"); !status.ok()) {
      return queued(context, context->DefaultReactor(), status);
    }
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* AddGrant(CallbackServerContext* context, const v1::AddGrantRequest* request,
                               v1::ChangeReply* reply) override {
    absl::Status status = check_named(*context, "AddGrant");
    if (status.ok()) status = check_client_name(request->principal(), "a grant would only close the table");
    if (!status.ok()) {
      return queued(context, context->DefaultReactor(), status);
    }
    return change(context, from_proto(*request), reply);
  }

  /// Also without certificates: that is how a table is opened that was closed when there were some.
  ServerUnaryReactor* RemoveGrant(CallbackServerContext* context, const v1::RemoveGrantRequest* request,
                                  v1::ChangeReply* reply) override {
    if (absl::Status status = check_named(*context, "RemoveGrant"); !status.ok()) {
      return queued(context, context->DefaultReactor(), status);
    }
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* SetQuota(CallbackServerContext* context, const v1::SetQuotaRequest* request,
                               v1::ChangeReply* reply) override {
    absl::Status status = check_named(*context, "SetQuota");
    if (status.ok()) status = check_client_name(request->principal(), "a quota would limit nobody");
    if (!status.ok()) {
      return queued(context, context->DefaultReactor(), status);
    }
    return change(context, from_proto(*request), reply);
  }

  ServerUnaryReactor* RemoveQuota(CallbackServerContext* context, const v1::RemoveQuotaRequest* request,
                                  v1::ChangeReply* reply) override {
    if (absl::Status status = check_named(*context, "RemoveQuota"); !status.ok()) {
      return queued(context, context->DefaultReactor(), status);
    }
    return change(context, from_proto(*request), reply);
  }

 private:
  /// Of a method of this service that needs a caller with a name.
  [[nodiscard]] absl::Status check_named(const CallbackServerContext& context, const char* method) const {
    return control::check_named(options_.credentials, *context.auth_context(),
                                absl::StrCat("/skua.control.v1.Cluster/", method));
  }

  /// What the core cannot see: whether it is a name at all, and whether names mean anything here. `consequence`:
  /// what would follow if they do not.
  [[nodiscard]] absl::Status check_client_name(const std::string& principal, const char* consequence) const {
    if (options_.credentials == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("this cluster has no certificates, so nodes cannot tell clients apart: ", consequence,
                       " (docs/security.md)"));
    }
    return parse_principal(principal, options_.cluster_id).status();
  }

  /// What the core cannot see: whether it is a name at all, and the caller's own.
  [[nodiscard]] absl::Status check_revocable(const CallbackServerContext& context, const std::string& principal) const {
    if (options_.credentials == nullptr) {
      return absl::FailedPreconditionError(
          "this cluster has no certificates, so there is nobody to revoke (docs/security.md)");
    }
    if (absl::Status status = check_named(context, "RevokeIdentity"); !status.ok()) return status;
    const auto named = parse_principal(principal, options_.cluster_id);
    if (!named.ok()) return named.status();
    if (named->principal() != peer_principal(*context.auth_context())) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        principal, " is the identity that asks for it, which could not take it back: use another administrator's"));
  }

  ServerUnaryReactor* change(CallbackServerContext* context, Event event, v1::ChangeReply* reply) {
    auto* reactor = context->DefaultReactor();
    return queued(context, reactor,
                  controller_.submit(
                      std::move(event),
                      [context, reactor, reply](const Decision& decision, const ClusterCore& core) {
                        reply->set_map_revision(core.state().map_revision);
                        // Also of what failed before anything was tried.
                        if (decision.changes.empty()) context->AddTrailingMetadata(kNothingDoneMetadata, "1");
                        finish(context, reactor, decision.status);
                      },
                      peer_host(context->peer()), peer_principal(*context->auth_context())));
  }

  const ServiceOptions options_;
  Controller& controller_;
  const std::shared_ptr<StatusDesk> status_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_cluster_service(const ServiceOptions& options, Controller& controller,
                                                    std::shared_ptr<StatusDesk> status) {
  return std::make_unique<ClusterService>(options, controller, std::move(status));
}

}  // namespace skua::control
