// LaneGroup: lanes of a fabric that one thread polls. They share bursts: the device is looked at once for all of them, and what
// they answer to what came together leaves together.
//
//     lane 0  lane 1  lane 2          polled in turn
//       |       |       |
//     inbox   inbox   inbox           what came for each; one of them has looked at the device
//       +-------+-------+
//          Lines: frames wait here while an inbox still has packets
//
// A lane whose inbox is empty looks at the device, and sends what waits before. While other inboxes have many packets it leaves that
// to their lanes, which are about to be polled, but not for longer than a round.
#ifndef SKUA_RPC_TRANSPORT_DPDK_LANE_GROUP_H_
#define SKUA_RPC_TRANSPORT_DPDK_LANE_GROUP_H_

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "rpc/transport/dpdk/line.h"
#include "rpc/transport/dpdk/port.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// Packets in order. They are the inbox's to free.
class LaneInbox {
 public:
  static constexpr uint32_t kPackets = 256;

  LaneInbox() = default;
  ~LaneInbox() {
    while (!empty()) rte_pktmbuf_free(packets_[first_++ % kPackets]);
  }
  LaneInbox(const LaneInbox&) = delete;
  LaneInbox& operator=(const LaneInbox&) = delete;

  [[nodiscard]] bool empty() const { return first_ == end_; }
  /// False: it is full.
  [[nodiscard]] bool push(rte_mbuf* packet) {
    if (end_ - first_ == kPackets) return false;
    packets_[end_++ % kPackets] = packet;
    return true;
  }
  /// The caller's to free.
  uint32_t pop(rte_mbuf** out, uint32_t count_max) {
    const uint32_t count = std::min(count_max, end_ - first_);
    for (uint32_t i = 0; i < count; ++i) out[i] = packets_[first_++ % kPackets];
    return count;
  }
  [[nodiscard]] uint32_t size() const { return end_ - first_; }

 private:
  uint32_t first_ = 0;
  uint32_t end_ = 0;
  std::array<rte_mbuf*, kPackets> packets_;
};

/// Thread: that of all its lanes. Lives as long as one of them does.
class LaneGroup {
 public:
  /// Of one lane; others may join.
  LaneGroup(const std::vector<Port*>& ports, uint16_t lane, uint16_t fabric_lanes)
      : fabric_lanes_(fabric_lanes), inboxes_(fabric_lanes) {
    for (Port* port : ports) lines_.emplace_back(*port, lane);
    join(lane);
  }

  /// Ports of the fabric, as the group's lanes send and receive by them.
  [[nodiscard]] std::vector<Line>& lines() { return lines_; }
  /// The lane uses the same queues, which it must do to join.
  [[nodiscard]] bool shares_queues_with(uint16_t lane) const {
    return std::all_of(lines_.begin(), lines_.end(), [&](const Line& line) { return line.is_of(lane); });
  }
  void join(uint16_t lane) {
    inboxes_[lane] = std::make_unique<LaneInbox>();
    ++lane_count_;
  }
  void leave(uint16_t lane) {
    undelivered_ -= inboxes_[lane]->size();
    inboxes_[lane].reset();
    --lane_count_;
  }
  [[nodiscard]] bool is_shared() const { return lane_count_ > 1; }
  /// No lane of the fabric is another thread's.
  [[nodiscard]] bool has_all_lanes() const { return lane_count_ == fabric_lanes_; }

  /// Null: the lane is none of ours.
  [[nodiscard]] LaneInbox* inbox(size_t lane) const { return lane < inboxes_.size() ? inboxes_[lane].get() : nullptr; }
  /// False: it is not, or its inbox is full.
  bool give(size_t lane, rte_mbuf* packet) {
    LaneInbox* to = inbox(lane);
    if (to == nullptr || !to->push(packet)) return false;
    ++undelivered_;
    return true;
  }
  /// What has come for the lane.
  uint32_t take(uint16_t lane, rte_mbuf** out, uint32_t count_max) {
    const uint32_t count = inboxes_[lane]->pop(out, count_max);
    undelivered_ -= count;
    return count;
  }

  /// Frames may wait for those of other lanes, which are about to be polled.
  [[nodiscard]] bool may_wait() const { return undelivered_ > 0; }
  /// A lane with an empty inbox should look at the device; if so, it sends first what waits.
  [[nodiscard]] bool should_look() {
    if (undelivered_ >= kBurstMax && ++passed_ < lane_count_) return false;
    passed_ = 0;
    return true;
  }

 private:
  const uint32_t fabric_lanes_;
  std::vector<Line> lines_;
  std::vector<std::unique_ptr<LaneInbox>> inboxes_;  // by lane; null: none of ours
  uint32_t lane_count_ = 0;
  uint32_t undelivered_ = 0;
  uint32_t passed_ = 0;  // polls that left the device alone
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_LANE_GROUP_H_
