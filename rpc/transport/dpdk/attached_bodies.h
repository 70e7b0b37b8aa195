// AttachedBodies: packets whose bodies drivers read from the application's memory, and when they have finished reading.
//
//     header mbuf                        mbuf without data            mbuf without data
//   | Eth IP UDP | engine 32 | head |--->| attached: body span |----->| attached: body span |
//                  copied                  the driver reads the application's memory
//
// All attached mbufs of a packet share one record. The driver frees each mbuf when it has read it. The callback of the
// last one puts the record on a list, and only then does reap() return the packet's token.
//
// A driver that copies frees the mbufs within the lane's own call; such a record goes to the lane's own list. A record
// freed by another thread, or outside such a call, goes to a shared list. That takes an atomic operation, which would
// be slow within the call: it would wait for all stores that the copy has just made.
#ifndef SKUA_RPC_TRANSPORT_DPDK_ATTACHED_BODIES_H_
#define SKUA_RPC_TRANSPORT_DPDK_ATTACHED_BODIES_H_

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "rpc/base/bytes.h"
#include "rpc/transport/dpdk/spare_frames.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// Thread: the lane's, except the free callback: any.
class AttachedBodies {
 public:
  /// `pool`: mbufs without data room, one per piece. It must outlive this object.
  explicit AttachedBodies(rte_mempool* pool);
  AttachedBodies(const AttachedBodies&) = delete;
  AttachedBodies& operator=(const AttachedBodies&) = delete;

  /// While an InCall lives, the calling thread (the lane's) is in a call to the driver. One at a time.
  class InCall {
   public:
    explicit InCall(const AttachedBodies& bodies) { in_call_ = &bodies; }
    ~InCall() { in_call_ = nullptr; }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;
  };

  /// Chains the pieces (at most kTxSegmentsMax) behind `frame`, whose lengths are set. False: no record or not enough
  /// mbufs are left, and nothing has changed.
  [[nodiscard]] bool attach(rte_mbuf* frame, std::span<const ByteSpan> pieces, TxToken token) {
    if (free_ == nullptr || !mbufs_.reserve(pieces.size())) return false;
    Record* record = free_;
    free_ = record->next;
    ++in_use_;
    record->token = token;
    rte_mbuf_ext_refcnt_set(&record->shared, static_cast<uint16_t>(pieces.size()));
    rte_mbuf* last = frame;
    uint32_t bytes = 0;
    for (const ByteSpan piece : pieces) {
      rte_mbuf* body = mbufs_.take();
      auto* address = const_cast<std::byte*>(piece.data());
      rte_pktmbuf_attach_extbuf(body, address, reinterpret_cast<uintptr_t>(address),
                                static_cast<uint16_t>(piece.size()), &record->shared);
      body->data_len = static_cast<uint16_t>(piece.size());
      bytes += static_cast<uint32_t>(piece.size());
      last->next = body;
      last = body;
    }
    frame->pkt_len += bytes;
    frame->nb_segs = static_cast<uint16_t>(1 + pieces.size());
    return true;
  }
  /// Writes the tokens of packets that are no longer read; returns how many.
  size_t reap(std::span<TxToken> tokens);

  /// Packets whose tokens were not reaped.
  [[nodiscard]] size_t in_use() const { return in_use_; }
  /// True if the records may not suffice for another burst.
  [[nodiscard]] bool are_scarce() const { return in_use_ > kRecords - kBurstMax; }
  /// True if no driver reads any attached memory any more; the remaining tokens can be reaped.
  [[nodiscard]] bool all_read() const;

 private:
  static constexpr size_t kRecords = 4096;

  struct Record {
    rte_mbuf_ext_shared_info shared;
    TxToken token;
    AttachedBodies* owner;
    Record* next;
  };

  static void on_segment_freed(void* address, void* record);

  /// The object whose lane's driver call this thread is in; null: none.
  static inline thread_local constinit const AttachedBodies* in_call_ = nullptr;

  SpareFrames mbufs_;
  std::unique_ptr<Record[]> records_;
  Record* free_ = nullptr;
  Record* read_ = nullptr;  // for reap(): freed within the lane's own calls, or taken from freed_
  size_t in_use_ = 0;
  alignas(64) std::atomic<Record*> freed_ = nullptr;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_ATTACHED_BODIES_H_
