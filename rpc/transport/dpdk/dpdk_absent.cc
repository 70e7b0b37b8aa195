// Stands in for dpdk_fabric.cc where DPDK was not found: programs link and say so when asked for it.
#include "rpc/transport/dpdk/dpdk_fabric.h"

namespace skua::rpc {

absl::StatusOr<std::unique_ptr<DpdkFabric>> DpdkFabric::start(const DpdkOptions& /*options*/) {
  return absl::UnimplementedError(
      "this build has no DPDK: install libdpdk-dev (deploy/install-deps), configure and build again");
}

}  // namespace skua::rpc
