#include "control/server/bootstrap_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <chrono>
#include <utility>

#include "control/server/controller_limits.h"
#include "control/server/grpc_listener.h"

namespace skua::control {
namespace {

class RunningServer final : public BootstrapServer {
 public:
  RunningServer(std::unique_ptr<grpc::Service> service, Listener listener)
      : service_(std::move(service)), listener_(std::move(listener)) {}
  ~RunningServer() override { RunningServer::shutdown(); }

  const std::string& address() const override { return listener_.address; }

  void shutdown() override { listener_.shut_down(std::chrono::system_clock::now() + std::chrono::seconds(1)); }

 private:
  const std::unique_ptr<grpc::Service> service_;
  Listener listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BootstrapServer>> BootstrapServer::start(
    const std::string& listen_address, SessionAcceptor& acceptor, const std::vector<grpc::Service*>& extra_services,
    const CredentialsPtr& credentials, DoorLog log) {
  auto service = make_bootstrap_service(acceptor);
  grpc::ServerBuilder builder;
  builder.RegisterService(service.get());
  for (grpc::Service* extra : extra_services) builder.RegisterService(extra);
  auto listener = listen_with(builder, listen_address, server_credentials(credentials, nullptr), nullptr,
                              {.calls_per_connection = kCallsPerConnectionMax,
                               .threads_max = kBootstrapThreadsMax,
                               .takes_plaintext = takes_plaintext(credentials),
                               .log = std::move(log)});
  if (!listener.ok()) return listener.status();
  return std::make_unique<RunningServer>(std::move(service), *std::move(listener));
}

}  // namespace skua::control
