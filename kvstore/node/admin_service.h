// The gRPC service of admin.proto.
#ifndef SKUA_KVSTORE_NODE_ADMIN_SERVICE_H_
#define SKUA_KVSTORE_NODE_ADMIN_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace skua::kv {

/// `metrics` is called on gRPC's threads, several at once, and may wait for the workers.
[[nodiscard]] std::unique_ptr<grpc::Service> make_admin_service(std::function<absl::StatusOr<std::string>()> metrics);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_ADMIN_SERVICE_H_
