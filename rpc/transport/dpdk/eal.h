// Eal: the one EAL of a process, started and stopped, with its words turned into a Status.
#ifndef SKUA_RPC_TRANSPORT_DPDK_EAL_H_
#define SKUA_RPC_TRANSPORT_DPDK_EAL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"

namespace skua::rpc::dpdk {

class Eal {
 public:
  static absl::StatusOr<std::unique_ptr<Eal>> start(const DpdkOptions& options);
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  /// What DPDK logged since the last call, one line; the drivers say there why they refuse.
  [[nodiscard]] std::string take_log();

 private:
  Eal() = default;

  FILE* log_ = nullptr;
  char* log_text_ = nullptr;
  size_t log_bytes_ = 0;
  size_t log_taken_ = 0;
};

/// Gives the calling thread an EAL identity, so that it has caches of its own in every memory pool. Cheap when it has one.
void adopt_thread();

/// The name that a device given by the user has as a port: a vdev's up to the first comma, a PCI address as it is.
[[nodiscard]] std::string port_name(const std::string& device);
[[nodiscard]] bool is_virtual_device(const std::string& device);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_EAL_H_
