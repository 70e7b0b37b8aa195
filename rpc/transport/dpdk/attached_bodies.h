// AttachedBodies: packets that drivers read from the application's memory, and when they are done with it.
//
//     header mbuf                        mbuf without data            mbuf without data
//   | Eth IP UDP | engine 32 | head |--->| attached: body span |----->| attached: body span |
//                  copied                  the driver reads the application's memory
//
//   All attached mbufs of a packet share one record. The driver frees each when it has read it; the last one's callback puts the
//   record on a list (from whatever thread that happens on), and reap() returns its token: never before.
#ifndef SKUA_RPC_TRANSPORT_DPDK_ATTACHED_BODIES_H_
#define SKUA_RPC_TRANSPORT_DPDK_ATTACHED_BODIES_H_

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "rpc/base/bytes.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// Thread: the lane's.
class AttachedBodies {
 public:
  /// `pool`: mbufs without room, one per piece. It outlives this.
  explicit AttachedBodies(rte_mempool* pool);
  AttachedBodies(const AttachedBodies&) = delete;
  AttachedBodies& operator=(const AttachedBodies&) = delete;

  enum class Outcome : uint8_t { kAttached, kNoRecord, kNoMbufs };
  /// Chains the pieces (at most kTxSegmentsMax) behind `frame`, whose lengths are set. Else nothing has changed.
  Outcome attach(rte_mbuf* frame, std::span<const ByteSpan> pieces, TxToken token);
  /// Tokens of packets that are no longer read; returns how many were written.
  size_t reap(std::span<TxToken> tokens);

  /// Packets whose tokens were not reaped.
  [[nodiscard]] size_t in_use() const { return in_use_; }
  /// Too many for another burst.
  [[nodiscard]] bool are_scarce() const { return in_use_ > kRecords - kBurstMax; }
  /// No driver reads any more: the rest is to be reaped.
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

  rte_mempool* pool_;
  std::unique_ptr<Record[]> records_;
  Record* free_ = nullptr;
  Record* read_ = nullptr;  // taken from freed_, for reap()
  size_t in_use_ = 0;
  alignas(64) std::atomic<Record*> freed_ = nullptr;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_ATTACHED_BODIES_H_
