// Replaces verbs_fabric.cc if libibverbs was not found at build time: programs link, and report that when it is asked
// for.
#include "rpc/transport/verbs/verbs_fabric.h"

namespace skua::rpc {

absl::StatusOr<std::unique_ptr<VerbsFabric>> VerbsFabric::start(const VerbsOptions& /*options*/) {
  return absl::FailedPreconditionError(
      "this build has no RDMA verbs: install libibverbs-dev (deploy/install-deps), configure and build again");
}

std::vector<std::string> describe_verbs_ports() {
  return {};
}

}  // namespace skua::rpc
