// Eal: the one EAL of a process. start() starts it, the destructor stops it; its messages become a Status.
#ifndef SKUA_RPC_TRANSPORT_DPDK_EAL_H_
#define SKUA_RPC_TRANSPORT_DPDK_EAL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/dpdk/kept_log.h"

namespace skua::rpc::dpdk {

class Eal {
 public:
  static absl::StatusOr<std::unique_ptr<Eal>> start(const DpdkOptions& options);
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  /// What DPDK logged since the last call, as one line. Drivers log there why they refuse something.
  [[nodiscard]] std::string take_log();

 private:
  Eal() = default;

  KeptLog log_;
};

/// Registers the calling thread with the EAL, so that it has its own cache in every memory pool. Cheap if already
/// registered.
void adopt_thread();

/// The name of the DPDK port for a device setting: for a vdev the text before the first comma, for a PCI address all of
/// it.
[[nodiscard]] std::string port_name(const std::string& device);
[[nodiscard]] bool is_virtual_device(const std::string& device);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_EAL_H_
