// AddressResolver: makes address handles (what a UD packet is addressed with) away from the endpoints' threads.
//
// On RoCE a handle holds the next hop's MAC, so making one may wait for ARP or neighbour discovery: a microsecond where the kernel
// knows the neighbour, a second or more where nobody answers. An endpoint that serves others cannot wait that long for an address
// that a stranger gave it.
#ifndef SKUA_RPC_TRANSPORT_VERBS_ADDRESS_RESOLVER_H_
#define SKUA_RPC_TRANSPORT_VERBS_ADDRESS_RESOLVER_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/verbs/address.h"
#include "rpc/transport/verbs/device.h"

namespace skua::rpc::verbs {

/// Destroyed when no packet that was posted with it is under way any more.
class AddressHandle {
 public:
  AddressHandle() = default;
  ~AddressHandle();
  AddressHandle(const AddressHandle&) = delete;
  AddressHandle& operator=(const AddressHandle&) = delete;

  /// Null: not yet, or never (see error()).
  [[nodiscard]] ibv_ah* get() const { return handle_.load(std::memory_order_acquire); }
  /// Why there will be none: errno; 0: it is there or still being made.
  [[nodiscard]] int error() const { return error_.load(std::memory_order_acquire); }
  [[nodiscard]] bool pending() const { return get() == nullptr && error() == 0; }

 private:
  friend class AddressResolver;
  std::atomic<ibv_ah*> handle_ = nullptr;
  std::atomic<int> error_ = 0;
};

/// Thread: any. Made once per device; outlives the endpoints.
class AddressResolver {
 public:
  /// Asks the kernel for a handle: null and errno if there is none. Thread: the resolver's.
  using MakeFn = std::function<ibv_ah*(ibv_pd*, ibv_ah_attr*)>;

  AddressResolver(Device& device, uint8_t traffic_class, MakeFn make = ibv_create_ah);
  ~AddressResolver();
  AddressResolver(const AddressResolver&) = delete;
  AddressResolver& operator=(const AddressResolver&) = delete;

  /// Where packets to `peer` go, as the device wants to know it.
  [[nodiscard]] ibv_ah_attr attributes(const EndpointAddress& peer, bool with_grh) const;
  /// The handle for packets to `peer`, which may still be pending after `patience_ns`. RESOURCE_EXHAUSTED: too many are.
  absl::StatusOr<std::shared_ptr<AddressHandle>> resolve(const EndpointAddress& peer, bool with_grh,
                                                         DurationNs patience_ns);

 private:
  static constexpr size_t kWaitingMax = 1024;

  struct Request {
    ibv_ah_attr attributes{};
    std::shared_ptr<AddressHandle> handle;
  };
  void run();

  Device& device_;
  const uint8_t traffic_class_;
  const MakeFn make_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::condition_variable answered_;
  std::deque<Request> requests_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_ADDRESS_RESOLVER_H_
