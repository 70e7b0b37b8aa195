// The implementation of Endpoint: the loop, and the parts that it ties together. One turn of the loop:
//
//      receive -> bundles, sessions, handshakes -> link events -> mailbox tasks -> one-sided operations -> timers
//      -> completions -> transmit -> reap, release -> bury what has ended
//
// The parts, each a class that its head explains. An arrow: uses. All use EndpointContext.
//
//      what comes in         PacketReceiver -> Bundles, sessions, StrayPackets -> what sessions do
//      calls                 OutgoingCalls, Answers -> Bundles -> IncomingCalls        Rehearsals -> OutgoingCalls
//      what sessions do      SessionDialer, SessionAcceptor, SessionLinks, SessionTimers -> SessionBinding ->
//                            SessionLives -> AssociationJoins -> Bundles; a join may bind a session, so
//                            AssociationJoins -> SessionBinding
//      what goes out         TransmitScheduler -> TransmitStage
//      one-sided operations  OneSidedLoop -> MessageReads (large messages), MemoryOperations (others')
//      memory                ReceiveMemory, FrameLeases
//
// Sessions tell the endpoint what they want (SessionSurroundings). Completions of large calls run after the turn's
// receive half, so that a completion never changes a session that is just running. Completions of small calls run while
// their bundle is read, when the session's state is complete. Sessions are destroyed at the end of the turn for the
// same reason.
#ifndef SKUA_RPC_ENDPOINT_IMPL_H_
#define SKUA_RPC_ENDPOINT_IMPL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/answers.h"
#include "rpc/association_joins.h"
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
#include "rpc/packet_receiver.h"
#include "rpc/receive_memory.h"
#include "rpc/rehearsals.h"
#include "rpc/session_acceptor.h"
#include "rpc/session_binding.h"
#include "rpc/session_dialer.h"
#include "rpc/session_links.h"
#include "rpc/session_lives.h"
#include "rpc/session_surroundings.h"
#include "rpc/session_timers.h"
#include "rpc/stray_packets.h"
#include "rpc/transmit_scheduler.h"

namespace skua::rpc {

/// Thread: the endpoint's. Endpoint checks the thread; here it is taken for granted.
class EndpointImpl {
 public:
  EndpointImpl(Transport& transport, const Clock& clock, const EndpointOptions& options);
  ~EndpointImpl();
  EndpointImpl(const EndpointImpl&) = delete;
  EndpointImpl& operator=(const EndpointImpl&) = delete;

  void adopt_thread();
  void observe_burst_end(absl::AnyInvocable<void()> observer);

  // --- The loop, as in Endpoint
  size_t poll();
  size_t poll_or_wait(DurationNs max_wait_ns);
  [[nodiscard]] DurationNs begin_wait(DurationNs max_wait_ns, size_t polled);
  void end_wait();
  void transmit_between_turns();
  [[nodiscard]] TimeNs next_timer_ns() const;
  [[nodiscard]] Endpoint::Balance balance() const;

  // --- The parts. Parts that use each other are told of each other before all of them exist, and do nothing until
  // then. Messages and leases return to the memory, so it comes before what may have some.
  EndpointContext context_;
  ReceiveMemory memory_{context_};
  IncomingCalls incoming_{context_, memory_};
  Bundles bundles_{context_, memory_, incoming_, joins_};
  Answers answers_{context_, memory_, bundles_, incoming_};
  OutgoingCalls outgoing_{context_, memory_, bundles_};
  Rehearsals rehearsals_{context_, memory_, incoming_, outgoing_};
  TransmitScheduler transmits_{context_, memory_, bundles_};
  MemoryOperations operations_{context_, memory_};
  MessageReads reads_{context_, memory_};
  OneSidedLoop one_sided_{context_, reads_, operations_};
  SessionSurroundings surroundings_{context_, memory_, incoming_, outgoing_, transmits_, receiver_, reads_};
  SessionLives lives_{context_, surroundings_, bundles_, joins_, transmits_};
  SessionBinding binding_{context_, lives_, joins_};
  AssociationJoins joins_{context_, bundles_, binding_};
  HandshakePolicy policy_{context_.transport, context_.options};
  SessionDialer dialer_{context_, policy_, lives_, transmits_};
  SessionAcceptor acceptor_{context_, policy_, lives_, binding_, transmits_};
  SessionLinks links_{context_, lives_, binding_, joins_};
  SessionTimers timers_{context_, lives_, dialer_, joins_};
  StrayPackets strays_{context_, transmits_, lives_, binding_, dialer_, acceptor_};
  PacketReceiver receiver_{context_, memory_, bundles_, strays_};

 private:
  size_t turn(size_t received);
  size_t run_mailbox();
  [[nodiscard]] bool has_due_timer() const {
    return context_.now_ns >= std::min({context_.timers.next(), operations_.task_due_ns(), rehearsals_.next_ns()});
  }
  void run_timers();
  [[nodiscard]] bool has_to_transmit() const { return transmits_.has_waiting() || dialer_.has_offers_due(); }
  size_t transmit();
  void bury_ended();
  [[nodiscard]] bool nothing_to_do() const;
  [[nodiscard]] DurationNs begin_sleep(DurationNs max_wait_ns);
  void sleep(DurationNs max_wait_ns);

  SpinPolicy spin_policy_;
  TimeNs last_work_ns_ = 0;
  bool slept_since_work_ = false;
  uint32_t idle_turns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ENDPOINT_IMPL_H_
