// The node's side of Bootstrap: what has to be known before the first packet of a session.
//
// This library knows nothing of the engine. Whoever runs the workers hands in a SessionAcceptor,
// which passes an offer to the right worker's thread and waits for its answer.
#ifndef SKUA_CONTROL_SERVER_BOOTSTRAP_SERVICE_H_
#define SKUA_CONTROL_SERVER_BOOTSTRAP_SERVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "control/core/bootstrap.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace skua::control {

/// Who wants a session.
struct SessionCaller {
  /// Where the call comes from, as peer_network() says.
  std::string host;
  /// "client/app-7", as its certificate says; "" without TLS.
  std::string principal;
};

/// Implemented by the storage node. Thread: called on gRPC's threads, several at once; may block
/// for as long as a worker needs.
class SessionAcceptor {
 public:
  virtual ~SessionAcceptor() = default;

  /// The node as it is now. Cheap: called for every request.
  virtual NodeDescription describe() = 0;

  /// Whether this process registers under `instance`; nothing if it does not say.
  virtual std::optional<bool> is_instance(const std::string& instance) {
    (void)instance;
    return std::nullopt;
  }

  /// Makes a session on a worker that is in describe(). `caller` is the endpoint at the other end
  /// (its kind may be empty if the offer says it all), `offer` the engine's handshake record, `who` asks for it; the
  /// result is the engine's answer. Errors are passed on.
  virtual absl::StatusOr<std::string> open_session(uint32_t worker, const TransportDescriptor& caller,
                                                   const std::string& offer, const SessionCaller& who) = 0;
};

/// The gRPC service over `acceptor`, which must outlive it. BootstrapServer is the simple way to
/// run it.
[[nodiscard]] std::unique_ptr<grpc::Service> make_bootstrap_service(SessionAcceptor& acceptor);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_BOOTSTRAP_SERVICE_H_
