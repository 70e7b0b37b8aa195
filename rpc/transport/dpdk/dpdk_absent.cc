// Replaces dpdk_fabric.cc if DPDK was not found at build time: programs link, and report that when DPDK is asked for.
#include "rpc/transport/dpdk/dpdk_fabric.h"

namespace skua::rpc {

absl::StatusOr<std::unique_ptr<DpdkFabric>> DpdkFabric::start(const DpdkOptions& /*options*/) {
  return absl::FailedPreconditionError(
      "this build has no DPDK: install libdpdk-dev (deploy/install-deps), configure and build again");
}

}  // namespace skua::rpc
