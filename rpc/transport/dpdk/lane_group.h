// LaneGroup: lanes of a fabric that one thread polls. They share bursts: one receive call serves all of them, and their
// answers to packets that arrived together leave together.
//
//     lane 0  lane 1  lane 2          polled in turn
//       |       |       |
//     inbox   inbox   inbox           what came for each; one of them has looked at the device
//       +-------+-------+
//          Lines: frames wait here while an inbox still has packets
//
// A lane with an empty inbox sends the waiting frames and then asks the device for packets. If other inboxes hold many
// packets, it leaves that to their lanes, which are polled next, but for at most one round.
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

/// A queue of packets, in order. The inbox owns the packets in it.
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
  /// Takes ownership of `packet`. False: the inbox is full, and the packet stays the caller's.
  [[nodiscard]] bool push(rte_mbuf* packet) {
    if (end_ - first_ == kPackets) return false;
    packets_[end_++ % kPackets] = packet;
    return true;
  }
  /// The caller owns the packets that it takes.
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

/// Thread: the one that polls all its lanes. Lives as long as one of its lanes.
class LaneGroup {
 public:
  /// A group of one lane; others may join().
  LaneGroup(const std::vector<Port*>& ports, uint16_t lane, uint16_t fabric_lanes)
      : fabric_lanes_(fabric_lanes), inboxes_(fabric_lanes) {
    for (Port* port : ports) lines_.emplace_back(*port, lane);
    join(lane);
  }

  /// The fabric's ports, as the group's lanes send and receive by them.
  [[nodiscard]] std::vector<Line>& lines() { return lines_; }
  /// True if the lane uses the same queues. Only such a lane may join.
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
  /// True if no lane of the fabric belongs to another thread.
  [[nodiscard]] bool has_all_lanes() const { return lane_count_ == fabric_lanes_; }

  /// The lane's inbox; null: the lane is not in this group.
  [[nodiscard]] LaneInbox* inbox(size_t lane) const { return lane < inboxes_.size() ? inboxes_[lane].get() : nullptr; }
  /// Puts `packet` into the lane's inbox. False: the lane is not in this group, or its inbox is full.
  bool give(size_t lane, rte_mbuf* packet) {
    LaneInbox* to = inbox(lane);
    if (to == nullptr || !to->push(packet)) return false;
    ++undelivered_;
    return true;
  }
  /// Takes packets from the lane's inbox.
  uint32_t take(uint16_t lane, rte_mbuf** out, uint32_t count_max) {
    const uint32_t count = inboxes_[lane]->pop(out, count_max);
    undelivered_ -= count;
    return count;
  }

  /// True if frames may wait for the frames of other lanes, which are about to be polled.
  [[nodiscard]] bool may_wait() const { return undelivered_ > 0; }
  /// True if a lane with an empty inbox should ask the device. It must first send the waiting frames.
  [[nodiscard]] bool should_look() {
    if (undelivered_ >= kBurstMax && ++passed_ < lane_count_) return false;
    passed_ = 0;
    return true;
  }

 private:
  const uint32_t fabric_lanes_;
  std::vector<Line> lines_;
  std::vector<std::unique_ptr<LaneInbox>> inboxes_;  // by lane; null: not in this group
  uint32_t lane_count_ = 0;
  uint32_t undelivered_ = 0;
  uint32_t passed_ = 0;  // polls in a row that did not ask the device
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_LANE_GROUP_H_
