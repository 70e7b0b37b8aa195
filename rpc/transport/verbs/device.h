// Device: one RDMA port of this machine, opened: what every endpoint of the process shares.
//
//   Device --- ibv_context, protection domain, port, GID
//     +-- MemoryRegistry       regions, registered once
//     +-- AddressResolver      address handles, made on a thread of its own (address_resolver.h)
//     +-- UdQueue per endpoint (ud_queue.h)
#ifndef SKUA_RPC_TRANSPORT_VERBS_DEVICE_H_
#define SKUA_RPC_TRANSPORT_VERBS_DEVICE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/transport/verbs/memory_registry.h"
#include "rpc/transport/verbs/port_choice.h"

namespace skua::rpc::verbs {

/// Every port of every device, also those that cannot be used.
std::vector<PortInfo> list_ports();

/// "rxe0: ibv_create_qp: Cannot allocate memory", as a Status.
absl::Status failed(const std::string& device, const char* what, int error);

/// Thread: any, but for construction and destruction.
class Device final : public Registrar {
 public:
  /// `mtu_bytes`: at most this much per packet; 0: the port's MTU. FAILED_PRECONDITION: see choose_port().
  static absl::StatusOr<std::unique_ptr<Device>> open(const PortWish& wish, uint32_t mtu_bytes);
  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* domain() const { return domain_; }
  [[nodiscard]] const ibv_device_attr& limits() const { return limits_; }
  [[nodiscard]] const std::string& name() const { return choice_.port.device; }
  [[nodiscard]] uint8_t port() const { return choice_.port.port; }
  [[nodiscard]] uint16_t lid() const { return choice_.port.lid; }
  [[nodiscard]] const GidInfo& gid() const { return choice_.gid; }
  /// Of a packet: engine header and payload.
  [[nodiscard]] uint16_t mtu_bytes() const { return mtu_bytes_; }
  [[nodiscard]] MemoryRegistry& memory() { return *memory_; }

  /// The port has a link now. Asks the device (a system call).
  [[nodiscard]] bool link_up() const;
  /// Throws away what the device has to say; ports and queues are looked at instead. Without this it would pile up.
  void drain_events();
  [[nodiscard]] std::string describe() const;

  // Registrar.
  absl::StatusOr<Registration> add(MutableByteSpan region) override;
  void remove(const Registration& registration) override;

 private:
  Device() : memory_(std::make_unique<MemoryRegistry>(*this)) {}

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_device_attr limits_{};
  PortChoice choice_;
  uint16_t mtu_bytes_ = 0;
  std::unique_ptr<MemoryRegistry> memory_;
  std::atomic<size_t> registered_bytes_ = 0;
  std::mutex events_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_DEVICE_H_
