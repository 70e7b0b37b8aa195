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
      buffers_(arena_, {.message_bytes_max = context.options.protocol.message_max_bytes,
                        .keeps_reserve = context.options.keeps_memory_reserve}),
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

Payer ReceiveMemory::payer_of(const SessionEntry& entry, PeerId from, bool is_request) const {
  if (!is_request || from == kNoPeer || from == kUnbound) return {};
  return {.peer = from, .host = context_.transport.host_of(from), .is_node = context_.is_kept_for(entry.identity)};
}

/// A client's request holds its memory until other nodes have what it writes. If all memory were held so, no node could
/// take what the others send. So what nodes send may take the reserve, which counts in nobody's share, and needs nobody
/// else to become free.
std::optional<ReceiveMemory::Taken> ReceiveMemory::take(const Payer& payer, size_t bytes, bool may_take_reserve) {
  if (pool_leases_.shares().may_take(payer, bytes)) {
    absl::StatusOr<Buffer> buffer = buffers_.allocate(bytes);
    if (buffer.ok()) {
      std::byte* const data = buffer->data();
      return Taken{data, pool_leases_.hold(*std::move(buffer), payer)};
    }
  }
  if (!may_take_reserve || (!payer.is_node && payer.peer != kNoPeer)) return std::nullopt;
  absl::StatusOr<Buffer> reserve = buffers_.allocate_reserve(bytes);
  if (!reserve.ok()) return std::nullopt;
  std::byte* const data = reserve->data();
  return Taken{data, pool_leases_.hold(*std::move(reserve), {})};
}

std::optional<Assembly> ReceiveMemory::assemble(const Payer& payer, size_t bytes) {
  const std::optional<Taken> taken = take(payer, bytes);
  if (!taken.has_value()) return std::nullopt;
  Assembly out;
  out.data = taken->data;
  out.lease = Lease({out.data, bytes}, &pool_leases_, taken->cookie);
  return out;
}

LeaseParts ReceiveMemory::copy_out(const Payer& payer, ByteSpan bytes) {
  // A packet that is not copied can be lent. The reserve is for messages.
  const std::optional<Taken> copy = take(payer, bytes.size(), false);
  if (!copy.has_value()) return {};
  copy_bytes(copy->data, bytes);
  context_.counters.rx_copied_bytes += bytes.size();
  ++context_.counters.leases_copied_out;
  return Lease({copy->data, bytes.size()}, &pool_leases_, copy->cookie).leak();
}

RxPlacer::Placement ReceiveMemory::place(const Payer& payer, size_t bytes) {
  const std::optional<Taken> taken = take(payer, bytes);
  if (!taken.has_value()) return {};
  RxPlacer::Placement out;
  out.to = taken->data;
  out.cookie = taken->cookie;
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
