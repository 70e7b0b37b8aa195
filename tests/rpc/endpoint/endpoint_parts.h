// The parts of an endpoint without its loop, over a wire that does as the test says: for tests of single parts.
#ifndef SKUA_TESTS_RPC_ENDPOINT_ENDPOINT_PARTS_H_
#define SKUA_TESTS_RPC_ENDPOINT_ENDPOINT_PARTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "rpc/association_joins.h"
#include "rpc/base/check.h"
#include "rpc/base/clock.h"
#include "rpc/bundles.h"
#include "rpc/endpoint_context.h"
#include "rpc/incoming_calls.h"
#include "rpc/mailbox.h"
#include "rpc/message_reads.h"
#include "rpc/outgoing_calls.h"
#include "rpc/receive_memory.h"
#include "rpc/session_binding.h"
#include "rpc/session_lives.h"
#include "rpc/transmit_scheduler.h"
#include "rpc/wire/packet_header.h"
#include "tests/rpc/endpoint/idle_session_host.h"

namespace skua::rpc::testing {

/// Packets that were sent: to whom, and their types.
using SentPackets = std::vector<std::pair<PeerId, PacketType>>;
/// What sessions' observers were told.
using Happened = SessionEvent::Kind;
using Kinds = std::vector<Happened>;

/// Takes what it is given, unless the test says otherwise.
class ObedientWire : public Transport {
 public:
  Capabilities capabilities_;
  std::set<PeerId> stopped;  // peers that take nothing
  size_t takes = kBurstMax;  // packets of each burst
  SentPackets sent;
  std::vector<std::vector<RxBufferId>> released;  // bursts
  uint32_t path_bytes = UINT32_MAX;               // payload_max_bytes() of every peer
  std::vector<LinkEvent> links;                   // for the next poll_links()
  std::deque<RxPacket> arriving;
  size_t wanted = 0;  // packets, by the last rx_burst()
  OneSided* one_sided_ = nullptr;

  ObedientWire() {
    capabilities_.segments_max = kTxSegmentsMax;
    capabilities_.payload_max_bytes = 1000;
    capabilities_.lendable_count = 8;
  }
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const TransportCounters& counters() const override { return counters_; }
  [[nodiscard]] Descriptor local_descriptor() const override { return {}; }
  absl::StatusOr<PeerId> resolve(const Descriptor& /*peer*/) override { return PeerId{1}; }
  [[nodiscard]] uint32_t payload_max_bytes(PeerId /*peer*/) const override {
    return std::min(path_bytes, capabilities_.payload_max_bytes);
  }
  bool has_room(PeerId peer) override { return !stopped.contains(peer); }
  size_t tx_burst(std::span<TxPacket> packets) override {
    const size_t count = std::min(packets.size(), takes);
    for (TxPacket& packet : packets.first(count)) {
      PacketHeader header;
      EXPECT_TRUE(decode_header(packet.header, header));
      sent.emplace_back(packet.peer, header.type);
      packet.done = true;
    }
    return count;
  }
  size_t rx_burst(std::span<RxPacket> packets) override {
    wanted = packets.size();
    size_t count = 0;
    for (; count < packets.size() && !arriving.empty(); arriving.pop_front()) packets[count++] = arriving.front();
    return count;
  }
  void release(std::span<const RxBufferId> buffers) override { released.emplace_back(buffers.begin(), buffers.end()); }
  size_t poll_links(std::span<LinkEvent> events) override {
    const size_t count = std::min(events.size(), links.size());
    std::move(links.begin(), links.begin() + static_cast<ptrdiff_t>(count), events.begin());
    links.erase(links.begin(), links.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }
  [[nodiscard]] OneSided* one_sided() override { return one_sided_; }
  void wait(DurationNs /*timeout_ns*/) override {}
  void wake() override {}

 private:
  TransportCounters counters_;
};

/// Sessions' surroundings that transmit, and keep time. The parts that a test leaves out are null, and then idle.
class TransmittingHost final : public IdleSessionHost {
 public:
  TransmitScheduler* transmits = nullptr;
  TimerHeap* timers = nullptr;
  IncomingCalls* incoming = nullptr;
  OutgoingCalls* outgoing = nullptr;
  MessageReads* reads = nullptr;
  ReceiveMemory* memory = nullptr;

  void mark_ready(Session& session) override { transmits->mark_ready(session); }
  PacketSink* express(const Session& session) override { return transmits->express(session); }
  void arm_timer(Session& session, TimeNs when) override { timers->set_earlier(session.address().local_index, when); }
  /// A copy: the test's packet may go before the call ends.
  bool keep(const Arrival& arrival, Lease& lease) override {
    if (arrival.payload.empty()) return true;
    const LeaseParts copy = memory->copy_out({}, arrival.payload);
    lease = Lease(copy);
    return copy.owner != nullptr;
  }
  std::optional<Assembly> assemble(const Session& /*session*/, size_t bytes, bool /*is_request*/) override {
    return memory->assemble({}, bytes);
  }
  Announcement announce(const MessageOwner& owner, const MessagePtr& message) override {
    return reads == nullptr ? Announcement() : reads->announce(owner, message);
  }
  Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) override {
    return reads == nullptr ? Fetch::kImpossible : reads->fetch(owner, list, message_bytes);
  }
  void sever(const Session& session) override {
    if (reads != nullptr) reads->sever(session);
  }
  void deliver(Session& session, ArrivedRequest&& request) override {
    if (incoming != nullptr) incoming->deliver(session, std::move(request));
  }
  void complete(Call& call) override {
    if (outgoing != nullptr) outgoing->complete(call);
  }
  bool start_small(Session& session, Call& call) override {
    return outgoing != nullptr && outgoing->start_small(session, call);
  }
  Call& take_over(Session& session) override {
    SKUA_CHECK(outgoing != nullptr, "only OutgoingCalls makes small calls");
    return outgoing->take_over(session);
  }
};

/// The context and the memory alone. `wire` and `options` must not change afterwards where the parts copy them.
struct ContextAndMemory {
  explicit ContextAndMemory(Transport& wire, const EndpointOptions& options = {})
      : context(wire, clock, options, std::make_shared<EndpointMailbox>(nullptr, wire, 16)) {}

  ManualClock clock;
  EndpointContext context;
  ReceiveMemory memory{context};
};

/// What sessions live on, too.
struct SessionParts : ContextAndMemory {
  explicit SessionParts(Transport& wire, const EndpointOptions& options = {}) : ContextAndMemory(wire, options) {
    host.transmits = &transmits;
    host.timers = &context.timers;
    host.memory = &memory;
    lives.observe([this](const SessionEvent& event) { events.push_back(event); });
  }
  ~SessionParts() {
    lives.observe(nullptr);
    lives.destroy_all();
    transmits.end();
  }
  SessionParts(const SessionParts&) = delete;
  SessionParts& operator=(const SessionParts&) = delete;

  /// An open session that this endpoint opened to `peer`.
  SessionEntry& dialled(PeerId peer) {
    SessionEntry& entry = **context.sessions.add_dialled(peer, context.now_ns);
    lives.make(entry);
    return opened(entry);
  }
  /// An open session that a peer opened; no packet of it came yet.
  SessionEntry& accepted(uint64_t nonce) {
    AcceptedOffer offer;
    offer.nonce = nonce;
    offer.remote_index = static_cast<uint32_t>(nonce);
    offer.remote_generation = 70;
    SessionEntry& entry = **context.sessions.add_accepted(offer, context.now_ns);
    lives.make(entry);
    return opened(entry);
  }
  void pass(DurationNs time_ns) {
    clock.advance(time_ns);
    context.now_ns = clock.now_ns();
  }
  [[nodiscard]] Kinds kinds() const {
    Kinds out;
    out.reserve(events.size());
    for (const SessionEvent& event : events) out.push_back(event.kind);
    return out;
  }

  TransmittingHost host;
  std::vector<SessionEvent> events;
  IncomingCalls incoming{context, memory};
  Bundles bundles{context, memory, incoming, joins};
  TransmitScheduler transmits{context, memory, bundles};
  SessionLives lives{context, host, bundles, joins, transmits};
  SessionBinding binding{context, lives, joins};
  AssociationJoins joins{context, bundles, binding};

 private:
  SessionEntry& opened(SessionEntry& entry) {
    SessionTerms terms;
    terms.window = 8;
    terms.credits = 8;
    terms.payload_bytes = 1000;
    terms.message_max_bytes = 10'000;
    lives.open(entry, terms);
    return entry;
  }
};

/// A test of what sessions live on.
class SessionPartsTest : public ::testing::Test {
 protected:
  [[nodiscard]] uint64_t drops(DropReason reason) const {
    return parts.context.counters.drops[static_cast<size_t>(reason)];
  }
  SentPackets transmit() {
    parts.transmits.transmit();
    return std::exchange(wire.sent, {});
  }
  static EndpointIdentity identity(uint64_t incarnation) {
    EndpointIdentity out;
    out.uuid.bytes[0] = 9;
    out.incarnation = incarnation;
    return out;
  }

  const absl::Status why = absl::UnavailableError("test");
  ObedientWire wire;
  SessionParts parts{wire};
  EndpointContext& context = parts.context;
  const ProtocolOptions& protocol = context.options.protocol;
};

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_ENDPOINT_ENDPOINT_PARTS_H_
