// AddressResolver: makes address handles (the destination of a UD packet) on a thread of its own.
//
// On RoCE a handle contains the next hop's MAC, so making one may wait for ARP or neighbour discovery. That takes a
// microsecond if the kernel knows the neighbour, and a second or more if nobody answers. An endpoint that serves others
// cannot wait that long for an address from a stranger.
#ifndef SKUA_RPC_TRANSPORT_VERBS_ADDRESS_RESOLVER_H_
#define SKUA_RPC_TRANSPORT_VERBS_ADDRESS_RESOLVER_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/verbs/address.h"
#include "rpc/transport/verbs/address_requests.h"
#include "rpc/transport/verbs/device.h"

namespace skua::rpc::verbs {

/// An address handle of the device. Must outlive all packets that were posted with it.
class AddressHandle {
 public:
  AddressHandle() = default;
  ~AddressHandle();
  AddressHandle(const AddressHandle&) = delete;
  AddressHandle& operator=(const AddressHandle&) = delete;

  /// The handle. Null: not made yet, or failed (see error()). Thread: any.
  [[nodiscard]] ibv_ah* get() const { return handle_.load(std::memory_order_acquire); }
  /// The errno if making the handle failed; 0: the handle is there or still being made. Thread: any.
  [[nodiscard]] int error() const { return error_.load(std::memory_order_acquire); }
  [[nodiscard]] bool pending() const { return get() == nullptr && error() == 0; }

 private:
  friend class AddressResolver;
  std::atomic<ibv_ah*> handle_ = nullptr;
  std::atomic<int> error_ = 0;
};

/// Made once per device; must outlive the endpoints. Thread: any.
class AddressResolver {
 public:
  /// Makes a handle; null with errno: it failed. May wait for the network. Thread: the resolver's.
  using MakeFn = std::function<ibv_ah*(ibv_pd*, ibv_ah_attr*)>;

  AddressResolver(Device& device, uint8_t traffic_class, MakeFn make = ibv_create_ah);
  ~AddressResolver();
  AddressResolver(const AddressResolver&) = delete;
  AddressResolver& operator=(const AddressResolver&) = delete;

  /// The attributes that direct the device's packets to `peer`.
  [[nodiscard]] ibv_ah_attr attributes(const EndpointAddress& peer, bool with_grh) const;
  /// The handle for packets to `peer`, which `word` named. Waits for it up to `patience_ns`; after that it may still be
  /// pending. It is not made any more if nobody holds it when its turn comes. RESOURCE_EXHAUSTED: too many requests are
  /// waiting.
  absl::StatusOr<std::shared_ptr<AddressHandle>> resolve(const EndpointAddress& peer, bool with_grh, PeerWord word,
                                                         DurationNs patience_ns);

 private:
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
  AddressRequests<Request> requests_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_ADDRESS_RESOLVER_H_
