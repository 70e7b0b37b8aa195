// Device: one opened RDMA port of this machine, shared by all endpoints of the process.
//
//   Device --- ibv_context, port, GID
//     +-- domain of packets: UdQueue per endpoint (ud_queue.h), and their memory
//     +-- domain of connected queue pairs: RcQueue (rc_queue.h) per peer or process, and their local memory: READs fill
//     |   it, WRITEs send it, and windows open a part of it for one peer (rc_connections.h); else peers cannot reach it
//     +-- AddressResolver      address handles, made on a thread of its own (address_resolver.h)
//
// Memory that is only sent or received in packets is not registered in the second domain, so no peer can reach it.
#ifndef SKUA_RPC_TRANSPORT_VERBS_DEVICE_H_
#define SKUA_RPC_TRANSPORT_VERBS_DEVICE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/transport/verbs/memory_registry.h"
#include "rpc/transport/verbs/port_choice.h"

namespace skua::rpc::verbs {

/// Every port of every device, including ports that cannot be used.
std::vector<PortInfo> list_ports();

/// "rxe0: ibv_create_qp: Cannot allocate memory", as a Status.
absl::Status failed(const std::string& device, const char* what, int error);

/// Registers memory in one protection domain with one set of rights.
class DomainRegistrar final : public Registrar {
 public:
  DomainRegistrar(std::string device, ibv_pd* domain, int access, std::atomic<size_t>& registered_bytes)
      : device_(std::move(device)), domain_(domain), access_(access), registered_bytes_(registered_bytes) {}
  /// The key is the remote key if peers have rights to the region, else the local key.
  absl::StatusOr<Registration> add(MutableByteSpan region) override;
  void remove(const Registration& registration) override;
  absl::StatusOr<Registration> add(MutableByteSpan region, int access);

 private:
  const std::string device_;
  ibv_pd* const domain_;
  const int access_;
  std::atomic<size_t>& registered_bytes_;
};

/// A registrar and its registry, for one kind of use.
struct RegisteredMemory {
  DomainRegistrar registrar;
  MemoryRegistry registry{registrar};
};

/// Thread: any, but for construction and destruction.
class Device final {
 public:
  /// `mtu_bytes`: at most this much per packet; 0: the port's MTU. FAILED_PRECONDITION: see choose_port().
  static absl::StatusOr<std::unique_ptr<Device>> open(const PortWish& wish, uint32_t mtu_bytes);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* domain() const { return domain_; }
  /// The domain of connected queue pairs.
  [[nodiscard]] ibv_pd* remote_domain() const { return remote_domain_; }
  [[nodiscard]] const ibv_device_attr& limits() const { return limits_; }
  [[nodiscard]] const std::string& name() const { return choice_.port.device; }
  [[nodiscard]] uint8_t port() const { return choice_.port.port; }
  [[nodiscard]] uint16_t lid() const { return choice_.port.lid; }
  [[nodiscard]] const GidInfo& gid() const { return choice_.gid; }
  /// Bytes of a packet: engine header and payload.
  [[nodiscard]] uint16_t mtu_bytes() const { return mtu_bytes_; }
  /// Memory of packets.
  [[nodiscard]] MemoryRegistry& memory() { return memory_->registry; }
  /// Memory that this process's operations on peers' memory fill or send, and memory that is lent to peers.
  [[nodiscard]] MemoryRegistry& local_memory() { return local_memory_->registry; }
  /// The device has memory windows of type 2B: a window opens exactly its own bytes, for one queue pair only.
  [[nodiscard]] bool has_windows() const {
    return (limits_.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0 && limits_.max_mw > 0;
  }
  /// Opens memory to peers for the operations in `rights` (memory_rights). UNIMPLEMENTED: the device has no atomics.
  /// close_memory() undoes it.
  absl::StatusOr<Registration> open_memory(MutableByteSpan region, uint8_t rights);
  void close_memory(const Registration& registration) { open_memory_->remove(registration); }

  /// True if the port has a link now. Makes a system call.
  [[nodiscard]] bool link_up() const;
  /// Throws away the device's events, which would pile up otherwise. Ports and queues are polled instead.
  void drain_events();
  [[nodiscard]] std::string describe() const;

 private:
  Device() = default;
  void make_registries();

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_pd* remote_domain_ = nullptr;
  ibv_device_attr limits_{};
  PortChoice choice_;
  uint16_t mtu_bytes_ = 0;
  std::atomic<size_t> registered_bytes_ = 0;
  std::unique_ptr<RegisteredMemory> memory_;
  std::unique_ptr<RegisteredMemory> local_memory_;
  std::unique_ptr<DomainRegistrar> open_memory_;
  std::mutex events_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_DEVICE_H_
