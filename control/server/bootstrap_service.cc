#include "control/server/bootstrap_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "control/proto/bootstrap.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/security/credentials.h"
#include "control/server/controller_limits.h"
#include "control/server/peer_host.h"

namespace skua::control {
namespace {

/// What callers must get right before anything of theirs reaches a worker.
absl::Status check_expectations(const NodeDescription& node, const std::string& cluster_id,
                                const v1::VersionRange& versions) {
  if (!negotiate(kProtocolVersions, from_proto(versions))) {
    return absl::FailedPreconditionError(absl::StrCat("the caller speaks control protocol versions ", versions.min(),
                                                      " to ", versions.max(), ", node ", node.node_uuid, " speaks ",
                                                      kProtocolVersions.min, " to ", kProtocolVersions.max,
                                                      ". Upgrade whichever of the two is older"));
  }
  if (!cluster_id.empty() && cluster_id != node.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "node ", node.node_uuid, " belongs to cluster ",
        node.cluster_id.empty() ? std::string("none yet") : node.cluster_id, ", the caller expects cluster ",
        cluster_id, ". Fetch the shard map again; if that does not help, the address is another cluster's"));
  }
  return absl::OkStatus();
}

absl::Status check_offer(const NodeDescription& node, const v1::OpenSessionRequest& request) {
  if (!request.node_uuid().empty() && request.node_uuid() != node.node_uuid) {
    return absl::FailedPreconditionError(absl::StrCat("this address belongs to node ", node.node_uuid,
                                                      " now, the caller expects node ", request.node_uuid(),
                                                      ". Fetch the shard map again"));
  }
  if (request.incarnation() != 0 && request.incarnation() != node.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat("node ", node.node_uuid, " is incarnation ", node.incarnation,
                                                      ", the caller expects incarnation ", request.incarnation(),
                                                      ". Fetch the shard map again"));
  }
  if (request.offer().size() > kOfferMax || request.transport().address().size() > kOfferMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a session offer is larger than ", kOfferMax, " bytes, which is the limit"));
  }
  const bool known = std::any_of(node.workers.begin(), node.workers.end(),
                                 [&](const auto& worker) { return worker.worker == request.worker(); });
  if (!known) {
    return absl::NotFoundError(
        absl::StrCat("node ", node.node_uuid, " has no worker ", request.worker(), ". Fetch the shard map again"));
  }
  return absl::OkStatus();
}

class BootstrapService final : public v1::Bootstrap::Service {
 public:
  explicit BootstrapService(SessionAcceptor& acceptor) : acceptor_(acceptor) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest* request, v1::DescribeReply* reply) override {
    const NodeDescription node = acceptor_.describe();
    const auto status = check_expectations(node, request->cluster_id(), request->versions());
    if (status.ok()) {
      *reply = to_proto(node);
      reply->set_instance(judge_instance(request->instance()));
    }
    return to_grpc(status);
  }

  grpc::Status OpenSession(grpc::ServerContext* context, const v1::OpenSessionRequest* request,
                           v1::OpenSessionReply* reply) override {
    const NodeDescription node = acceptor_.describe();
    auto status = check_expectations(node, request->cluster_id(), request->versions());
    if (status.ok()) status = check_offer(node, *request);
    if (!status.ok()) return to_grpc(status);
    auto answer = acceptor_.open_session(request->worker(), from_proto(request->transport()), request->offer(),
                                         {peer_network(context->peer()), peer_principal(*context->auth_context())});
    if (!answer.ok()) return to_grpc(answer.status());
    reply->set_node_uuid(node.node_uuid);
    reply->set_incarnation(node.incarnation);
    reply->set_answer(*std::move(answer));
    return grpc::Status::OK;
  }

 private:
  v1::DescribeReply::Instance judge_instance(const std::string& instance) {
    const auto mine = instance.empty() ? std::nullopt : acceptor_.is_instance(instance);
    if (!mine) return v1::DescribeReply::UNSAID;
    return *mine ? v1::DescribeReply::MINE : v1::DescribeReply::ANOTHER;
  }

  SessionAcceptor& acceptor_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_bootstrap_service(SessionAcceptor& acceptor) {
  return std::make_unique<BootstrapService>(acceptor);
}

}  // namespace skua::control
