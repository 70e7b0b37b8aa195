#include "rpc/bundles.h"

#include <algorithm>
#include <utility>

#include "rpc/association_joins.h"

namespace skua::rpc {

Bundles::Bundles(EndpointContext& context, ReceiveMemory& memory, IncomingCalls& incoming, AssociationJoins& joins)
    : context_(context),
      memory_(memory),
      incoming_(incoming),
      joins_(joins),
      transport_(context.transport),
      integrity_(context.capabilities.integrity),
      is_stream_(context.capabilities.reliable),
      leases_(memory),
      calls_(*this, context.options.protocol) {
  gather(false);
}

// Inline, and defined before their users, because each small call runs this code.

void Bundles::deliver(SessionHot& hot, RawRecord record, LeaseParts request) {
  if (!incoming_.deliver_small(hot, record, time_of(record.time()), request)) [[unlikely]] {
    Lease(request).reset();
    refuse(hot, record.number, record.method());
  }
}

void Bundles::complete(CompletionFn& completion, LeaseParts response) {
  CallOutcome outcome;
  outcome.response.fill(response.bytes, response.owner, response.cookie);
  outcome.from_peer = outcome.may_have_executed = true;
  // Handlers may have gathered requests of this burst. They answer before this completion can free what they gathered.
  if (incoming_.has_gathered()) [[unlikely]] {
    burst_end();
  }
  ++context_.counters.calls_completed;
  if (!completion) return;
  completion(std::move(outcome));
}

/// Refuses the request as a large call's is refused: with an answer that says why.
void Bundles::refuse(SessionHot& hot, uint32_t number, uint8_t method) {
  ArrivedRequest arrived;
  arrived.slot = number & hot.mask;
  arrived.req_num = number;
  arrived.method = method;
  incoming_.deliver(session_of(hot), std::move(arrived));
}

/// Prefetches the sessions. fetch_for() follows the chain of pointers from there, step by step.
void Bundles::look_ahead(std::span<const RxPacket> burst) {
  for (size_t i = 0; i < burst.size(); ++i) {
    const RxPacket& packet = burst[i];
    ahead_[i] = {};
    if (packet.payload.size() < sizeof(uint32_t)) continue;  // it has no record
    ahead_[i].session = index_of_handle(load_le<uint32_t>(packet.header.data() + kBundleHeadBytes));
    ahead_[i].number = load_le<uint32_t>(packet.payload.data());
    __builtin_prefetch(&hot(ahead_[i].session), 1);
  }
}

/// Prefetches for the next packets: what the session of the packet two ahead points at, and what that in turn points at
/// for the next packet.
void Bundles::fetch_for(size_t at, size_t count) const {
  if (at + 2 < count) {
    const SessionHot& hot = this->hot(ahead_[at + 2].session);
    if (hot.association != nullptr) {
      __builtin_prefetch(hot.association, 1);
      __builtin_prefetch(reinterpret_cast<const std::byte*>(hot.association) + 64, 1);
    }
    if (hot.client != nullptr) __builtin_prefetch(hot.server() + (ahead_[at + 2].number & hot.mask), 1);
  }
  if (at + 1 < count) {
    const SessionHot& hot = this->hot(ahead_[at + 1].session);
    if (hot.association != nullptr) __builtin_prefetch(hot.association->sent.get(), 1);
  }
}

void Bundles::on_packet(std::span<const RxPacket> burst, size_t at, bool of_many) {
  const RxPacket& packet = burst[at];
  if (packet.payload.empty()) [[unlikely]] {  // the header's place alone cannot hold a record
    if (packet.buffer != kNoBuffer) memory_.release(packet.buffer);
    return drop(DropReason::kTooShort);
  }
  SKUA_CHECK(packet.header.data() + packet.header.size() == packet.payload.data(),
             "the transport gave a bundle in two pieces");
  if (of_many) fetch_for(at, burst.size());
  leases_.begin(packet.buffer);
  in_packet_ = true;
  current_is_lendable_ = packet.buffer != kNoBuffer;
  current_lends_ = current_is_lendable_ && memory_.may_lend();
  current_from_ = packet.from;
  waits_for_others_ = of_many && at + 1 < burst.size();
  calls_.on_bundle({packet.header.data(), packet.header.size() + packet.payload.size()}, packet.from);
  in_packet_ = false;
  leases_.end();
  context_.counters.rx_zero_copy_bytes += std::exchange(zero_copy_bytes_, 0);
}

LeaseParts Bundles::copy_out(const SessionHot& hot, ByteSpan bytes) {
  const SessionEntry& entry = context_.sessions[index_of_handle(hot.handle)];
  // A bundle has requests and answers. Mostly the side that opened a session is the one that calls in it.
  return memory_.copy_out(memory_.payer_of(entry, current_from_, !entry.initiator), bytes);
}

void Bundles::flush() {
  if (out_count_ == 0) return;
  context_.counters.packets_sent += out_count_;
  transport_.send_frames(std::span(out_).first(std::exchange(out_count_, 0)));
}

// --- Calls -----------------------------------------------------------------------------------------------------------

Session& Bundles::session_of(const SessionHot& hot) {
  return *context_.sessions[index_of_handle(hot.handle)].session;
}

void Bundles::arm(SessionHot& hot, Ticks by) {
  session_of(hot).arm_small(by, context_.now_ns);
}

void Bundles::make_slots(SessionHot& hot) {
  session_of(hot).make_slots();
}

bool Bundles::yield_slot(SessionHot& hot, uint32_t number) {
  return session_of(hot).yield_slot(number);
}

void Bundles::on_larger_answer(SessionHot& hot, uint32_t bytes) {
  session_of(hot).charge_for(bytes);
}

void Bundles::on_slot_freed(SessionHot& hot) {
  session_of(hot).on_slot_freed(context_.now_ns);
}

/// The call has become a large one meanwhile; the answer still completes it.
void Bundles::on_late_answer(SessionHot& hot, RawRecord record, ByteSpan bytes, Ticks echo) {
  Arrival arrival;
  arrival.header.type = PacketType::kResponse;
  arrival.header.session_index = index_of_handle(hot.handle);
  arrival.header.req_num = record.number;
  arrival.header.message_bytes = record.bytes();
  arrival.header.stamp = echo;
  arrival.payload = bytes;
  session_of(hot).on_packet(arrival, context_.now_ns);
}

void Bundles::on_sample(SessionHot& hot, Ticks delay, uint32_t answers, uint32_t record_bytes) {
  session_of(hot).on_small_sample(delay * kTickNs, answers, record_bytes, context_.now_ns);
}

void Bundles::count_retransmit() {
  ++context_.counters.retransmits;
}

void Bundles::on_join(const BundleHead& head, RawRecord record, ByteSpan bytes, PeerId from) {
  joins_.on_record(head, record, bytes, from);
}

void Bundles::drop(DropReason reason) {
  context_.count_drop(reason);
}

}  // namespace skua::rpc
