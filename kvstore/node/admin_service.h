// Makes the gRPC service Admin (admin.proto): reads a node's metrics.
#ifndef SKUA_KVSTORE_NODE_ADMIN_SERVICE_H_
#define SKUA_KVSTORE_NODE_ADMIN_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

namespace grpc {
class Service;
}  // namespace grpc

namespace skua::kv {

/// `metrics` returns the node's metrics as text. gRPC's threads call it, several at once. It may wait for the workers.
/// Ownership of the service goes to the caller.
[[nodiscard]] std::unique_ptr<grpc::Service> make_admin_service(std::function<std::string()> metrics);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_ADMIN_SERVICE_H_
