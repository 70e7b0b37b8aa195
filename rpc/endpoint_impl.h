// The implementation of Endpoint. One turn of the loop:
//
//      rx_burst -> dispatch to sessions (bundles: and answers) -> link events -> mailbox tasks -> READs -> timers ->
//      completions
//      -> tx_burst -> reap, release
//
// Sessions tell the endpoint what they want (SessionHost). Ready sessions wait in a list until the transport has room,
// and fill one burst after another (TransmitStage). Completions of large calls run after the turn's receive half, so
// that a completion never changes a session that is just running. Completions of small calls run while their bundle is
// read, when the session's state is complete. Sessions are destroyed at the end of the turn for the same reason.
//
// Files: endpoint.cc (public interface, the loop), endpoint_calls.cc, endpoint_packets.cc (receive and transmit),
// endpoint_reads.cc (large messages that this endpoint reads), endpoint_memory.cc (operations on peers' memory that
// others start), endpoint_sessions.cc (how sessions begin), endpoint_session_ends.cc, endpoint_rehearsal.cc. Separate
// classes: SessionTable (the sessions), TransmitStage (packets of a burst), Bundles (small calls), Loans, ReadPulls.
#ifndef SKUA_RPC_ENDPOINT_IMPL_H_
#define SKUA_RPC_ENDPOINT_IMPL_H_

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/answers.h"
#include "rpc/association_joins.h"
#include "rpc/base/check.h"
#include "rpc/base/spin_policy.h"
#include "rpc/bundles.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/handshake_policy.h"
#include "rpc/incoming_calls.h"
#include "rpc/memory_operations.h"
#include "rpc/message_reads.h"
#include "rpc/one_sided_loop.h"
#include "rpc/outgoing_calls.h"
#include "rpc/protocol/session.h"
#include "rpc/receive_memory.h"
#include "rpc/rehearsals.h"
#include "rpc/session_acceptor.h"
#include "rpc/session_binding.h"
#include "rpc/session_dialer.h"
#include "rpc/session_links.h"
#include "rpc/session_lives.h"
#include "rpc/session_table.h"
#include "rpc/session_timers.h"
#include "rpc/transmit_scheduler.h"
#include "rpc/transport/channels.h"

namespace skua::rpc {

class EndpointImpl final : private SessionHost, private RxPlacer, private PeerUse {
 public:
  EndpointImpl(Transport& transport, const Clock& clock, const EndpointOptions& options);
  ~EndpointImpl();

  void adopt_thread();
  void observe_burst_end(absl::AnyInvocable<void()> observer) {
    incoming_.observe_burst_end(std::move(observer));
    bundles_.gather(incoming_.gathers());
  }

  size_t poll();
  size_t poll_or_wait(DurationNs max_wait_ns);
  [[nodiscard]] int wait_fd() const { return context_.transport.wait_fd(); }
  [[nodiscard]] DurationNs begin_wait(DurationNs max_wait_ns, size_t polled);
  void end_wait();
  void transmit_between_turns();
  [[nodiscard]] TimeNs next_timer_ns() const;
  [[nodiscard]] Endpoint::Balance balance() const;

  EndpointContext context_;
  /// Messages return to it, so it is declared before what may have some.
  ReceiveMemory memory_{context_};
  IncomingCalls incoming_{context_, memory_};
  Bundles bundles_{context_, memory_, incoming_, joins_};
  Answers answers_{context_, memory_, bundles_, incoming_};
  OutgoingCalls outgoing_{context_, memory_, bundles_};
  MemoryOperations operations_{context_, memory_};
  MessageReads reads_{context_, memory_};
  OneSidedLoop one_sided_{context_, reads_, operations_};
  TransmitScheduler transmits_{context_, memory_, bundles_};
  SessionLives lives_{context_, *this, bundles_, joins_, transmits_};
  SessionBinding binding_{context_, lives_, joins_};
  AssociationJoins joins_{context_, bundles_, binding_};
  HandshakePolicy policy_{context_.transport, context_.options};
  SessionDialer dialer_{context_, policy_, lives_, transmits_};
  SessionAcceptor acceptor_{context_, policy_, lives_, binding_, transmits_};

 private:
  // SessionHost.
  void mark_ready(Session& session) override { transmits_.mark_ready(session); }
  PacketSink* express(const Session& session) override { return transmits_.express(session); }
  void arm_timer(Session& session, TimeNs when) override {
    context_.timers.set_earlier(session.address().local_index, when);
  }
  bool keep(const Arrival& arrival, Lease& lease) override;
  std::optional<Assembly> assemble(const Session& session, size_t bytes) override;
  MessagePtr make_message() override { return memory_.make_message(); }
  Announcement announce(const MessageOwner& owner, const MessagePtr& message) override {
    return reads_.announce(owner, message);
  }
  Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) override {
    return reads_.fetch(owner, list, message_bytes);
  }
  void sever(const Session& session) override { reads_.sever(session); }
  void deliver(Session& session, ArrivedRequest&& request) override { incoming_.deliver(session, std::move(request)); }
  [[nodiscard]] bool takes_one_way(uint16_t method) const override { return incoming_.takes_one_way(method); }
  void complete(Call& call) override { outgoing_.complete(call); }
  bool start_small(Session& session, Call& call) override { return outgoing_.start_small(session, call); }
  Call& take_over(Session& session) override { return outgoing_.take_over(session); }
  void count_drop(DropReason reason) override { context_.count_drop(reason); }
  void count_retransmit() override { ++context_.counters.retransmits; }
  void count_copied(size_t bytes) override { context_.counters.rx_copied_bytes += bytes; }

  // RxPlacer.
  Placement place(PeerId from, ByteSpan header, size_t payload_bytes) override;
  void abandon(uint64_t cookie) override;

  // PeerUse.
  [[nodiscard]] bool is_used(PeerId peer) const override { return context_.sessions.is_used(peer); }
  [[nodiscard]] bool is_awaited(PeerId peer) const override { return context_.sessions.is_awaited(peer); }

  // endpoint.cc
  size_t receive() { return context_.transport.rx_burst(std::span(received_).first(receive_max_)); }
  size_t turn(size_t received);
  [[nodiscard]] bool nothing_to_do() const;
  [[nodiscard]] DurationNs begin_sleep(DurationNs max_wait_ns);
  void sleep(DurationNs max_wait_ns);
  size_t run_mailbox();
  [[nodiscard]] bool has_due_timer() const {
    return context_.now_ns >= std::min({context_.timers.next(), operations_.task_due_ns(), rehearsals_.next_ns()});
  }
  void run_timers();

  // endpoint_packets.cc
  void dispatch(std::span<RxPacket> packets);
  void dispatch(RxPacket& packet);
  [[nodiscard]] size_t take_pieces(std::span<RxPacket> packets);
  [[nodiscard]] bool is_unsealed(const RxPacket& packet, const PacketHeader& header, const SessionEntry* entry) const;
  void dispatch_aside(const Arrival& arrival, PeerId from);
  void tell_unknown(const PacketHeader& header, PeerId from);
  void dispatch_control(const Arrival& arrival, PeerId from);
  void discard_current();
  [[nodiscard]] bool has_to_transmit() const { return transmits_.has_waiting() || dialer_.has_offers_due(); }
  size_t transmit();
  void bury_ended();

  SessionLinks links_{context_, lives_, binding_, joins_};
  SessionTimers timers_{context_, lives_, dialer_, joins_};
  Rehearsals rehearsals_{context_, memory_, incoming_, outgoing_};

  // Receive: the packet being dispatched.
  RxPacket* current_ = nullptr;
  bool current_kept_ = false;
  std::array<RxPacket, kBurstMax> received_;
  /// How many packets are received at a time. Mostly half a burst: its answers leave while the next half arrives. A
  /// whole burst if many peers send little each: it is mostly all that has arrived, and each receive has its cost.
  size_t receive_max_ = kBurstMax / 2;

  SpinPolicy spin_policy_;
  TimeNs last_work_ns_ = 0;
  bool slept_since_work_ = false;
  uint32_t idle_turns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ENDPOINT_IMPL_H_
