#include "kvstore/client/verbs.h"

#include <memory>
#include <utility>

#include "rpc/transport/verbs/verbs_fabric.h"

namespace skua::kv {

absl::StatusOr<TransportMaker> verbs_transports(const rpc::VerbsSettings& settings) {
  absl::StatusOr<rpc::VerbsOptions> options = settings.to_options();
  if (!options.ok()) return options.status();
  absl::StatusOr<std::unique_ptr<rpc::VerbsFabric>> started = rpc::VerbsFabric::start(*options);
  if (!started.ok()) return started.status();
  std::shared_ptr<rpc::VerbsFabric> fabric = *std::move(started);
  return TransportMaker([fabric](const rpc::EndpointIdentity& self) -> absl::StatusOr<std::shared_ptr<rpc::Transport>> {
    absl::StatusOr<std::unique_ptr<rpc::Transport>> made = fabric->make_transport(self);
    if (!made.ok()) return made.status();
    // Each transport keeps the fabric alive.
    return std::shared_ptr<rpc::Transport>(made->release(), [fabric](rpc::Transport* transport) {
      delete transport;  // NOLINT(cppcoreguidelines-owning-memory): this is the deleter
    });
  });
}

}  // namespace skua::kv
