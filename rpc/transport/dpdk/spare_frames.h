// SpareFrames: free mbufs to write frames into. They come from the pool, a burst at a time, or are received frames that
// nobody reads any longer.
//
// The frame that was received last is the next one to be sent: its memory is in the cache, and the pool is not needed.
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
  /// The pool must outlive this object.
  explicit SpareFrames(rte_mempool* pool) : pool_(pool) {}
  ~SpareFrames() { rte_pktmbuf_free_bulk(spare_.data(), static_cast<unsigned>(count_)); }
  SpareFrames(const SpareFrames&) = delete;
  SpareFrames& operator=(const SpareFrames&) = delete;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Makes sure that at least `count` (at most kBurstMax) mbufs are here. False: the pool has too few.
  bool reserve(size_t count) { return count_ >= count || refill(); }
  /// Takes a burst from the pool. Only while fewer than kBurstMax are here. False: the pool has too few.
  [[gnu::noinline]] bool refill() {
    if (rte_pktmbuf_alloc_bulk(pool_, spare_.data() + count_, kBurstMax) != 0) return false;
    count_ += kBurstMax;
    return true;
  }
  /// An empty mbuf, owned by the caller. Only if not empty().
  [[nodiscard]] rte_mbuf* take() { return spare_[--count_]; }
  /// Gives back an mbuf that was taken; nothing but its data bytes may have changed.
  void give_back(rte_mbuf* frame) {
    if (count_ == spare_.size()) return rte_pktmbuf_free(frame);
    spare_[count_++] = frame;
  }
  /// Takes a received frame that nobody reads any longer. False: the mbuf cannot be written again as it is, or enough
  /// mbufs are here.
  [[nodiscard]] bool recycle(rte_mbuf* frame) {
    const bool is_plain =
        frame->pool == pool_ && frame->nb_segs == 1 && rte_mbuf_refcnt_read(frame) == 1 && RTE_MBUF_DIRECT(frame);
    if (!is_plain || count_ == spare_.size()) return false;
    // Resets the fields that sending looks at, as rte_pktmbuf_reset() does.
    frame->data_off = RTE_PKTMBUF_HEADROOM;
    frame->ol_flags = 0;
    frame->tx_offload = 0;
    frame->pkt_len = 0;
    frame->data_len = 0;
    spare_[count_++] = frame;
    return true;
  }
  /// Bytes that fit behind the headroom.
  [[nodiscard]] size_t bytes() const { return rte_pktmbuf_data_room_size(pool_) - RTE_PKTMBUF_HEADROOM; }

 private:
  rte_mempool* pool_;
  size_t count_ = 0;
  std::array<rte_mbuf*, 2 * kBurstMax> spare_;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_SPARE_FRAMES_H_
