#include "rpc/transport/dpdk/attached_bodies.h"

#include <array>

namespace skua::rpc::dpdk {

AttachedBodies::AttachedBodies(rte_mempool* pool) : pool_(pool), records_(std::make_unique<Record[]>(kRecords)) {
  for (Record& record : std::span(records_.get(), kRecords)) {
    record.owner = this;
    record.shared.free_cb = &AttachedBodies::on_segment_freed;
    record.shared.fcb_opaque = &record;
    record.next = free_;
    free_ = &record;
  }
}

AttachedBodies::Outcome AttachedBodies::attach(rte_mbuf* frame, std::span<const ByteSpan> pieces, TxToken token) {
  std::array<rte_mbuf*, kTxSegmentsMax> bodies;
  if (free_ == nullptr) return Outcome::kNoRecord;
  if (rte_pktmbuf_alloc_bulk(pool_, bodies.data(), static_cast<unsigned>(pieces.size())) != 0) return Outcome::kNoMbufs;
  Record* record = free_;
  free_ = record->next;
  ++in_use_;
  record->token = token;
  rte_mbuf_ext_refcnt_set(&record->shared, static_cast<uint16_t>(pieces.size()));
  rte_mbuf* last = frame;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ByteSpan piece = pieces[i];
    auto* address = const_cast<std::byte*>(piece.data());
    rte_pktmbuf_attach_extbuf(bodies[i], address, reinterpret_cast<uintptr_t>(address),
                              static_cast<uint16_t>(piece.size()), &record->shared);
    bodies[i]->data_off = 0;
    bodies[i]->data_len = static_cast<uint16_t>(piece.size());
    frame->pkt_len += static_cast<uint32_t>(piece.size());
    last->next = bodies[i];
    last = bodies[i];
  }
  frame->nb_segs = static_cast<uint16_t>(1 + pieces.size());
  return Outcome::kAttached;
}

void AttachedBodies::on_segment_freed(void* /*address*/, void* opaque) {
  auto* record = static_cast<Record*>(opaque);
  std::atomic<Record*>& list = record->owner->freed_;
  record->next = list.load(std::memory_order_relaxed);
  while (!list.compare_exchange_weak(record->next, record, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

size_t AttachedBodies::reap(std::span<TxToken> tokens) {
  if (in_use_ == 0) return 0;
  size_t count = 0;
  while (count < tokens.size()) {
    if (read_ == nullptr) read_ = freed_.exchange(nullptr, std::memory_order_acquire);
    if (read_ == nullptr) break;
    Record* record = read_;
    read_ = record->next;
    tokens[count++] = record->token;
    record->next = free_;
    free_ = record;
    --in_use_;
  }
  return count;
}

bool AttachedBodies::all_read() const {
  size_t read = 0;
  for (const Record* r = freed_.load(std::memory_order_acquire); r != nullptr; r = r->next) ++read;
  for (const Record* r = read_; r != nullptr; r = r->next) ++read;
  return read == in_use_;
}

}  // namespace skua::rpc::dpdk
