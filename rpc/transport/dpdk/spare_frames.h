// SpareFrames: mbufs to write frames into, taken from the pool a burst at a time, or from what was received and read.
//
// The frame that was received last is the next one to be sent: the processor has its memory at hand, and the pool is
// not asked.
#ifndef SKUA_RPC_TRANSPORT_DPDK_SPARE_FRAMES_H_
#define SKUA_RPC_TRANSPORT_DPDK_SPARE_FRAMES_H_

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <array>
#include <cstddef>

#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// Thread: the lane's.
class SpareFrames {
 public:
  /// The pool outlives this.
  explicit SpareFrames(rte_mempool* pool) : pool_(pool) {}
  ~SpareFrames() { rte_pktmbuf_free_bulk(spare_.data(), static_cast<unsigned>(count_)); }
  SpareFrames(const SpareFrames&) = delete;
  SpareFrames& operator=(const SpareFrames&) = delete;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// At least `count` are here, at most kBurstMax. False: the pool has too few.
  bool reserve(size_t count) { return count_ >= count || refill(); }
  /// While fewer than kBurstMax are here. False: the pool has too few.
  [[gnu::noinline]] bool refill() {
    if (rte_pktmbuf_alloc_bulk(pool_, spare_.data() + count_, kBurstMax) != 0) return false;
    count_ += kBurstMax;
    return true;
  }
  /// An empty mbuf, the caller's. Not while there is none.
  [[nodiscard]] rte_mbuf* take() { return spare_[--count_]; }
  /// One that was taken and is as it was, but for its bytes.
  void give_back(rte_mbuf* frame) {
    if (count_ == spare_.size()) return rte_pktmbuf_free(frame);
    spare_[count_++] = frame;
  }
  /// Takes a received frame that nobody reads any longer. False: it is none that can be written again as it is, or
  /// enough are here.
  [[nodiscard]] bool recycle(rte_mbuf* frame) {
    const bool is_plain =
        frame->pool == pool_ && frame->nb_segs == 1 && rte_mbuf_refcnt_read(frame) == 1 && RTE_MBUF_DIRECT(frame);
    if (!is_plain || count_ == spare_.size()) return false;
    // What rte_pktmbuf_reset() does, as far as anybody looks at it of a frame that is sent.
    frame->data_off = RTE_PKTMBUF_HEADROOM;
    frame->ol_flags = 0;
    frame->tx_offload = 0;
    frame->pkt_len = 0;
    frame->data_len = 0;
    spare_[count_++] = frame;
    return true;
  }
  /// What fits behind the headroom.
  [[nodiscard]] size_t bytes() const { return rte_pktmbuf_data_room_size(pool_) - RTE_PKTMBUF_HEADROOM; }

 private:
  rte_mempool* pool_;
  size_t count_ = 0;
  std::array<rte_mbuf*, 2 * kBurstMax> spare_;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_SPARE_FRAMES_H_
