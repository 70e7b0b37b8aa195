#include "rpc/receive_memory.h"

#include <span>
#include <utility>

namespace skua::rpc {
namespace {

constexpr size_t kMessagesKept = 4096;

}  // namespace

ReceiveMemory::ReceiveMemory(EndpointContext& context)
    : context_(context),
      arena_({.limit_bytes = context.options.memory_limit_bytes,
              .try_huge_pages = true,
              .on_map = [this](MutableByteSpan region) { return context_.transport.register_region(region); },
              .on_unmap = [this](MutableByteSpan region) { context_.transport.unregister_region(region); }}),
      buffers_(arena_),
      messages_(kMessagesKept),
      pool_leases_(context),
      lent_watermark_(context.capabilities.lendable_count / 2) {}

// --- Pool buffers ----------------------------------------------------------------------------------------------------

void ReceiveMemory::PoolLeases::return_lease(uint64_t cookie) {
  context_.check_thread();
  Held& held = held_[cookie];
  shares_.give(held.payer, held.buffer.capacity());
  held.buffer.reset();
  free_.push_back(static_cast<uint32_t>(cookie));
}

uint64_t ReceiveMemory::PoolLeases::hold(Buffer buffer, const Payer& payer) {
  shares_.take(payer, buffer.capacity());
  if (free_.empty()) {
    held_.push_back({std::move(buffer), payer});
    return held_.size() - 1;
  }
  const uint32_t cookie = free_.back();
  free_.pop_back();
  held_[cookie] = {std::move(buffer), payer};
  return cookie;
}

Payer ReceiveMemory::payer_of(const SessionEntry& entry, PeerId from) const {
  if (entry.initiator || from == kNoPeer || from == kUnbound) return {};
  return {.peer = from, .host = context_.transport.host_of(from), .is_node = context_.is_kept_for(entry.identity)};
}

std::optional<Assembly> ReceiveMemory::assemble(const Payer& payer, size_t bytes) {
  if (!pool_leases_.shares().may_take(payer, bytes)) return std::nullopt;
  absl::StatusOr<Buffer> buffer = buffers_.allocate(bytes);
  if (!buffer.ok()) return std::nullopt;
  Assembly out;
  out.data = buffer->data();
  const uint64_t cookie = pool_leases_.hold(*std::move(buffer), payer);
  out.lease = Lease({out.data, bytes}, &pool_leases_, cookie);
  return out;
}

LeaseParts ReceiveMemory::copy_out(const Payer& payer, ByteSpan bytes) {
  std::optional<Assembly> copy = assemble(payer, bytes.size());
  if (!copy.has_value()) return {};
  copy_bytes(copy->data, bytes);
  context_.counters.rx_copied_bytes += bytes.size();
  ++context_.counters.leases_copied_out;
  return copy->lease.leak();
}

RxPlacer::Placement ReceiveMemory::place(const Payer& payer, size_t bytes) {
  absl::StatusOr<Buffer> buffer = pool_leases_.shares().may_take(payer, bytes) ? buffers_.allocate(bytes) : Buffer();
  if (!buffer.ok() || buffer->data() == nullptr) return {};
  RxPlacer::Placement out;
  out.to = buffer->data();
  out.cookie = pool_leases_.hold(*std::move(buffer), payer);
  return out;
}

void ReceiveMemory::lend_placed(ByteSpan bytes, uint64_t placement, Lease& lease) {
  context_.counters.rx_zero_copy_bytes += bytes.size();
  lease.fill(bytes, &pool_leases_, placement);
}

// --- The transport's buffers -----------------------------------------------------------------------------------------

void ReceiveMemory::TransportLeases::return_lease(uint64_t cookie) {
  memory_.context_.check_thread();
  --memory_.lent_count_;
  memory_.release(cookie);
}

void ReceiveMemory::lend(ByteSpan bytes, RxBufferId buffer, Lease& lease) {
  context_.counters.rx_zero_copy_bytes += bytes.size();
  ++lent_count_;
  lease.fill(bytes, &transport_leases_, buffer);
}

void ReceiveMemory::flush_releases() {
  if (to_release_count_ == 0) return;
  context_.transport.release(std::span(to_release_).first(to_release_count_));
  to_release_count_ = 0;
}

}  // namespace skua::rpc
