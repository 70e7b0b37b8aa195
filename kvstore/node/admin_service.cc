#include "kvstore/node/admin_service.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "kvstore/node/admin.grpc.pb.h"

namespace skua::kv {
namespace {

using Metrics = std::function<std::string()>;

class AdminService final : public node::v1::Admin::Service {
 public:
  explicit AdminService(Metrics metrics) : metrics_(std::move(metrics)) {}

  grpc::Status GetMetrics(grpc::ServerContext*, const node::v1::GetMetricsRequest*,
                          node::v1::GetMetricsReply* reply) override {
    reply->set_text(metrics_());
    return grpc::Status::OK;
  }

 private:
  const Metrics metrics_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_admin_service(Metrics metrics) {
  return std::make_unique<AdminService>(std::move(metrics));
}

}  // namespace skua::kv
