// RcQueue: one connected queue pair (RC) for READ, WRITE and atomics, between this endpoint or process and a peer.
//
//    made: INIT --bind(peer's)--> RTR, RTS: works --failure--> ERROR: of no use any more, destroyed
//
// A failed queue pair is never repaired. A new one has another number, so nothing that is still under way to the old
// one reaches it. The keys of memory decide what a peer may do through a queue pair. All such memory is in a protection
// domain that datagrams do not use.
#ifndef SKUA_RPC_TRANSPORT_VERBS_RC_QUEUE_H_
#define SKUA_RPC_TRANSPORT_VERBS_RC_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rpc/transport/verbs/device.h"

namespace skua::rpc::verbs {

/// Thread: the owner's.
class RcQueue {
 public:
  /// Operations on their way to the device. Each has up to two work requests.
  static constexpr uint32_t kDepth = 64;
  /// The most notices that have room.
  static constexpr uint32_t kNotices = 128;

  /// The peer's queue pair.
  struct Remote {
    /// The address was resolved a moment ago, so the kernel need not ask the network for it.
    ibv_ah_attr address{};
    uint32_t qp_number = 0;
    uint32_t psn = 0;
    uint8_t reads_served = 1;
    uint16_t mtu_bytes = 0;
  };

  struct Depths {
    /// Work requests on their way to the device.
    uint32_t send = 2 * kDepth;
    uint32_t receive = kNotices;
  };
  static constexpr int kAllRights = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

  /// `completions` must outlive it. `psn` must be hard to guess. `rights`: the most that the peer may do over it;
  /// atomics are left out if the device has none.
  static absl::StatusOr<std::unique_ptr<RcQueue>> create(Device& device, ibv_cq* completions, uint32_t psn,
                                                         const Depths& depths, int rights);
  static absl::StatusOr<std::unique_ptr<RcQueue>> create(Device& device, ibv_cq* completions, uint32_t psn) {
    return create(device, completions, psn, Depths(), kAllRights);
  }
  /// When this returns, the device uses no memory for the queue pair, neither here nor for the peer. Its completions
  /// may still lie in the completion queue.
  ~RcQueue();
  RcQueue(const RcQueue&) = delete;
  RcQueue& operator=(const RcQueue&) = delete;

  [[nodiscard]] uint32_t number() const { return pair_->qp_num; }
  [[nodiscard]] uint32_t psn() const { return psn_; }
  [[nodiscard]] uint8_t reads_served() const { return reads_served_; }

  absl::Status bind(const Remote& remote);
  /// False: the device refused a request, at least the last one.
  bool post(ibv_send_wr* first);
  /// Posts room for one more notice, whose completion has this id. False: refused.
  bool post_notice_room(uint64_t id);
  /// Asks the device (a system call).
  [[nodiscard]] bool in_error() const;
  /// Puts the queue pair into the error state: everything under way ends. The device still knows the queue pair.
  void fail();

 private:
  RcQueue(Device& device, uint32_t psn) : device_(device), psn_(psn) {}

  Device& device_;
  const uint32_t psn_;
  uint8_t reads_served_ = 1;
  ibv_qp* pair_ = nullptr;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_RC_QUEUE_H_
