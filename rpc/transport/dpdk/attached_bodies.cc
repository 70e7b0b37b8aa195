#include "rpc/transport/dpdk/attached_bodies.h"

namespace skua::rpc::dpdk {

AttachedBodies::AttachedBodies(rte_mempool* pool) : mbufs_(pool), records_(std::make_unique<Record[]>(kRecords)) {
  for (Record& record : std::span(records_.get(), kRecords)) {
    record.owner = this;
    record.shared.free_cb = &AttachedBodies::on_segment_freed;
    record.shared.fcb_opaque = &record;
    record.next = free_;
    free_ = &record;
  }
}

void AttachedBodies::on_segment_freed(void* /*address*/, void* opaque) {
  auto* record = static_cast<Record*>(opaque);
  AttachedBodies& owner = *record->owner;
  if (in_call_ == &owner) [[likely]] {
    record->next = owner.read_;
    owner.read_ = record;
    return;
  }
  std::atomic<Record*>& list = owner.freed_;
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
