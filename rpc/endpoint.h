// Endpoint: the engine's event loop on one thread, and all that an application sees of it.
//
//            application                                        application
//                |  call(session, method, message, completion)      ^  handler(IncomingCall: lease + reply token)
//   +------------v--------------------------------------------------+---------------------------------------+
//   | Endpoint   sessions, sslots, credits, timers (rpc/protocol), buffers (rpc/memory), mailbox             |
//   +------------+--------------------------------------------------^---------------------------------------+
//                |  tx_burst, reap                                  |  rx_burst, release
//             Transport (sim, tcp, dpdk, verbs), handed in by main
//
// Threads. An endpoint belongs to the thread that made it (or called adopt_thread()). Every entry
// point checks this, in every build, and aborts with a message that says so; only post(), Mailbox
// and ReplyToken may be used elsewhere. A thread may own several endpoints. Nothing is global.
//
// Time. Every call has a deadline. poll() reads the clock once per turn.
//
// Exceptions. What a handler, a completion or an observer throws ends the program.
//
// Outcomes of a call, as absl::Status codes:
//   OK                    the handler's answer is in CallResult::response
//   any                   the handler's own status (CallResult::from_peer is true)
//   DEADLINE_EXCEEDED     the deadline passed; the handler may or may not have run
//   UNAVAILABLE           the peer is gone or cannot be reached; the message carries the evidence
//   ABORTED               the peer restarted while the call was in flight: it may have executed
//   CANCELLED             cancel() was called, or the session was closed
//   RESOURCE_EXHAUSTED    a bound was reached here or there; the message says which
// CallResult::may_have_executed tells whether the request can have reached the handler.
#ifndef SKUA_RPC_ENDPOINT_H_
#define SKUA_RPC_ENDPOINT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"
#include "rpc/protocol/call.h"
#include "rpc/protocol/options.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

class Endpoint;
class EndpointImpl;
class EndpointMailbox;
class Mailbox;
class MemoryAccess;

/// Names what kind of request a message is; served by handlers. Below kMethodMax.
using MethodId = uint16_t;
inline constexpr MethodId kMethodMax = 256;
/// The engine's own (EndpointOptions::rehearsal_interval_ns).
inline constexpr MethodId kRehearsalMethod = kMethodMax - 2;

/// A session, by index and generation: using one that was closed is refused, never confused with a
/// newer one.
struct SessionId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  bool operator==(const SessionId&) const = default;
};

/// A call in flight; for cancel(). Stale ids are ignored. What the fields mean is the endpoint's.
struct CallId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  uint32_t number = 0;
};

/// status, response (a Lease, empty unless OK), from_peer, may_have_executed.
using CallResult = CallOutcome;

/// Runs on the endpoint's thread, exactly once per accepted call, from inside poll(), cancel() or
/// close(); never from inside call(). Captures of up to two pointers are kept without allocating, if they are trivially
/// copyable.
using CompletionFn = OneShot<CallResult>;

struct CallOptions {
  /// From now; not more than an hour.
  DurationNs timeout_ns = 5 * kSecond;
  /// No answer is wanted: the completion runs with OK once the peer has the message.
  bool one_way = false;
  /// What the endpoint's clock said a moment ago, for callers that just read it; 0: it is read again (outside of poll()).
  TimeNs now_ns = 0;
};

/// The duty to answer one call. Move-only; answer once, now or later, from any thread. Dropping it
/// unanswered answers INTERNAL ("the handler dropped its reply token"). After the endpoint is gone
/// answers are discarded.
class ReplyToken {
 public:
  ReplyToken() = default;
  ReplyToken(ReplyToken&& other) noexcept
      : mailbox_(std::exchange(other.mailbox_, nullptr)),
        session_(other.session_),
        slot_(other.slot_),
        req_num_(other.req_num_) {}
  ReplyToken& operator=(ReplyToken&& other) noexcept {
    if (this != &other) {
      if (mailbox_ != nullptr) dropped();
      fill(std::exchange(other.mailbox_, nullptr), other.session_, other.slot_, other.req_num_);
    }
    return *this;
  }
  ~ReplyToken() {
    if (mailbox_ != nullptr) dropped();
  }

  /// Answers OK with `message` (may be null: empty). On another thread the answer travels through
  /// the endpoint's mailbox, waiting for room there if need be.
  void reply(MessagePtr message);
  /// The same with a copy of `bytes`. Up to kFewBytesMax of them cost no message.
  void reply(ByteSpan bytes);
  /// Answers with an error; its message is sent along (the first 1,024 bytes).
  void fail(const absl::Status& status);
  /// A part of what the caller's answers may take of memory (EndpointOptions::answers_limit_bytes), for an answer
  /// whose bytes nothing else bounds: to be dropped with these bytes, which is when the caller has them, or is gone.
  /// Nothing: its earlier answers have taken all. On the endpoint's thread, before the answer.
  [[nodiscard]] std::optional<Lease> reserve(size_t bytes);
  /// False once answered or moved from.
  explicit operator bool() const { return mailbox_ != nullptr; }

 private:
  friend class Bundles;
  friend class EndpointImpl;
  ReplyToken(EndpointMailbox* mailbox, SessionId session, uint32_t slot, uint32_t req_num)
      : mailbox_(mailbox), session_(session), slot_(slot), req_num_(req_num) {}
  /// The same for one that is empty.
  void fill(EndpointMailbox* mailbox, SessionId session, uint32_t slot, uint32_t req_num) {
    mailbox_ = mailbox;
    session_ = session;
    slot_ = slot;
    req_num_ = req_num;
  }
  template <typename Sent>
  [[gnu::always_inline]] inline bool reply_small(Sent response);
  inline void answer(const absl::Status& status, MessagePtr&& message);
  void answer_from_afar(EndpointMailbox* mailbox, const absl::Status& status, MessagePtr&& message);
  void dropped();

  EndpointMailbox* mailbox_ = nullptr;  // held (EndpointMailbox::hold)
  SessionId session_;
  uint32_t slot_ = 0;
  uint32_t req_num_ = 0;
};

/// One request as a handler gets it.
struct IncomingCall {
  SessionId session;
  MethodId method = 0;
  /// Then `reply` is empty. Only of methods that are served with ServeOptions::one_way.
  bool one_way = false;
  /// On this endpoint's clock; kTimeNever if the caller set none that the header can carry.
  TimeNs deadline_ns = kTimeNever;
  /// When the engine took the request from the transport.
  TimeNs received_ns = 0;
  Lease request;
  ReplyToken reply;
};

/// Runs on the endpoint's thread from inside poll(). May make calls, answer, keep the lease; must
/// not block.
using HandlerFn = absl::AnyInvocable<void(IncomingCall&&)>;

struct ServeOptions {
  /// The handler takes one-way calls, too, whose reply token is empty. Others get FAILED_PRECONDITION and do not reach it.
  bool one_way = false;
};

/// What happened to a session. Runs on the endpoint's thread.
struct SessionEvent {
  enum class Kind : uint8_t {
    kConnected,    // opened by us, and ready
    kAccepted,     // opened by a peer
    kBroken,       // lost; calls in flight got their outcome; reconnecting if we opened it
    kReconnected,  // ready again, with a new generation at the peer
    kLinkLost,  // the transport's connection broke; the session stands and repeats what was in flight over the next one
    kClosed,    // gone for good; `why` says why
  };
  Kind kind = Kind::kClosed;
  SessionId session;
  EndpointIdentity peer;
  absl::Status why;
};
using SessionEventFn = absl::AnyInvocable<void(const SessionEvent&)>;

struct EndpointOptions {
  ProtocolOptions protocol;
  /// Sessions this endpoint holds at most, its own and accepted ones.
  uint32_t sessions_max = 1024;
  /// The last so many of them are for the endpoint's own sessions, and for those that keep_for() takes.
  uint32_t sessions_reserved = 0;
  /// Of sessions_max, those that one peer opened; beyond it its offers are refused with RESOURCE_EXHAUSTED.
  uint32_t sessions_per_peer_max = 1024;
  /// And those that peers at one host opened.
  uint32_t sessions_per_host_max = 1024;
  /// And accepted ones that no packet came for yet: beyond it the oldest goes.
  uint32_t sessions_unproven_max = 256;
  /// Calls accepted and not yet completed, over all sessions.
  uint32_t calls_max = 1u << 16;
  /// Handlers running or deferred, over all sessions; beyond it requests are refused with
  /// RESOURCE_EXHAUSTED.
  uint32_t handlers_max = 1u << 16;
  /// Tasks waiting in the mailbox.
  uint32_t mailbox_max = 1u << 14;
  /// Message memory (assembly of large messages, copies of lent packets).
  size_t memory_limit_bytes = size_t{1} << 30;
  /// Memory that answers may take until their callers have them, as far as handlers reserve it (ReplyToken::reserve).
  size_t answers_limit_bytes = size_t{1} << 30;
  /// poll_or_wait() spins this long after the last work before it sleeps, as long as that mostly pays (spin_policy.h);
  /// kTimeNever: never sleep (`busy` polling).
  DurationNs spin_ns = 50 * kMicrosecond;
  /// Without calls of the application's, an endpoint that never sleeps makes a small one of its own to one of its peers
  /// in turn so often, so that the processors of both keep at hand what a call needs. 0: never.
  DurationNs rehearsal_interval_ns = 10 * kMillisecond;
  /// Accept sessions opened by peers.
  bool accept_sessions = true;
  /// Small calls share packets with peers that can (protocol version 2), where the transport has frames.
  bool bundles = true;
  /// The wire to any peer detects damage by itself: shared memory, say. Large messages have no checksums then in
  /// sessions whose peer says the same.
  bool trusted_wire = false;
  /// For simulations only, which must repeat exactly: above 0, session generations and nonces follow from it, so that
  /// whoever knows it can guess them. 0: the system draws them. tests/tidy fails when a program sets it.
  uint64_t simulation_seed = 0;
};

/// Always-on counters of one endpoint; see counters().
struct EndpointCounters {
  uint64_t calls_started = 0;
  uint64_t calls_completed = 0;
  uint64_t requests_served = 0;
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t retransmits = 0;
  /// Payload bytes the engine copied on receive (assembly, copy-out above the watermark);
  /// transports count their own.
  uint64_t rx_copied_bytes = 0;
  /// And on transmit: pieces of large messages, where the wire copies what it is given anyhow.
  uint64_t tx_copied_bytes = 0;
  /// Payload bytes handed to the application where the transport put them.
  uint64_t rx_zero_copy_bytes = 0;
  uint64_t leases_copied_out = 0;
  /// Of messages read from peers' memory (rpc/transport/one_sided.h): bytes, and messages that went in packets after all.
  uint64_t rx_read_bytes = 0;
  uint64_t reads_failed = 0;
  uint64_t sessions_broken = 0;
  uint64_t sessions_reconnected = 0;
  uint64_t stale_replies = 0;
  uint64_t requests_refused = 0;
  /// Packets dropped, by reason; index with DropReason.
  std::array<uint64_t, kDropReasonCount> drops{};
};

/// Thread: see the head of this file; destroyed on the owner's thread, outside poll(). The transport, the clock and everything captured by handlers
/// must outlive the endpoint; leases and messages made from it must not.
class Endpoint {
 public:
  Endpoint(Transport& transport, const Clock& clock, const EndpointOptions& options);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Makes the calling thread the owner. Only while no other thread uses the endpoint (hand-over
  /// from main to a worker).
  void adopt_thread();

  /// Requests for `method` go to `handler`; one handler per method. Null: to nobody any more. Before the first poll().
  void serve(MethodId method, HandlerFn handler, const ServeOptions& options = {});
  void on_session_event(SessionEventFn observer);
  /// Whether a session that claims to be of `peer` may have one of sessions_reserved. A claim: who lies is to be found
  /// out and closed.
  void keep_for(absl::AnyInvocable<bool(const EndpointIdentity& peer) const> may_have);
  /// For handlers that gather requests to answer them together: `observer` runs behind the handlers of a burst, or of a
  /// large bundle, before their answers are sent and before a completion runs; so several times in a turn, and in a
  /// turn that received something at least once. Before the first poll().
  void on_burst_end(absl::AnyInvocable<void()> observer);

  // --- Sessions ------------------------------------------------------------------------------------------------------
  /// Opens a session by packets on the transport itself, retrying until it stands or is closed. Calls may be made at once; they
  /// wait for the connection within their deadlines and connect_timeout; once that has passed, they fail at each retry.
  /// Errors: resolve()'s, RESOURCE_EXHAUSTED (sessions_max).
  absl::StatusOr<SessionId> connect(const Descriptor& peer);

  /// The same with the handshake carried by somebody else (gRPC): send the returned offer to the
  /// peer's accept_offer(), give its answer to finish_connect(). Calls may be made at once.
  struct Offer {
    SessionId session;
    std::string bytes;
  };
  absl::StatusOr<Offer> begin_connect(const Descriptor& peer);
  absl::Status finish_connect(SessionId session, ByteSpan answer);
  /// The accepting side: makes the session and returns the answer, which may itself say no. `source`: what all offers
  /// of one host have in common, as far as whoever carried the offer can tell; for sessions_unproven_max.
  std::string accept_offer(ByteSpan offer, uint64_t source = 0);

  /// Completes outstanding calls with CANCELLED, tells the peer once, frees the session.
  void close(SessionId session);
  [[nodiscard]] bool is_connected(SessionId session) const;
  /// Who is at the other end; all zero before the session stands.
  [[nodiscard]] EndpointIdentity peer_identity(SessionId session) const;
  /// The random number of the offer that made the session, which both ends know, and nobody else who does not see their packets; 0: no
  /// such session. So one end can be asked by another way whether it opened the session.
  [[nodiscard]] uint64_t session_nonce(SessionId session) const;
  [[nodiscard]] Descriptor local_descriptor() const;

  // --- Memory --------------------------------------------------------------------------------------------------------
  /// Makes application memory known to the transport, once, so that message bodies in it are sent without copying. It stays
  /// mapped until unregister_memory() or the endpoint's end. Bodies elsewhere may be copied (the transport counts it).
  /// RESOURCE_EXHAUSTED names the limit and how to raise it.
  absl::Status register_memory(MutableByteSpan region);
  void unregister_memory(MutableByteSpan region);
  /// The transport's operations on peers' memory, for what lends it (rpc/memory_access.h).
  [[nodiscard]] MemoryAccess& memory_access();

  // --- Calls ---------------------------------------------------------------------------------------------------------
  /// An empty message from the endpoint's pool.
  [[nodiscard]] MessagePtr make_message();
  /// Sends `request`; `completion` runs exactly once unless an error is returned here, and then
  /// never. Errors: INVALID_ARGUMENT (size, timeout), NOT_FOUND (session closed),
  /// RESOURCE_EXHAUSTED (which bound).
  absl::StatusOr<CallId> call(SessionId session, MethodId method, MessagePtr request, const CallOptions& options,
                              CompletionFn completion);
  /// The same with a copy of `request`. Up to kFewBytesMax bytes cost no message.
  absl::StatusOr<CallId> call(SessionId session, MethodId method, ByteSpan request, const CallOptions& options,
                              CompletionFn completion);
  /// Completes the call with CANCELLED if it is still in flight. The request's memory is released
  /// when the transport lets go.
  void cancel(CallId call) noexcept;

  // --- The loop ------------------------------------------------------------------------------------------------------
  /// One turn: mailbox, receive, timers, transmit. Never blocks. Returns the amount of work done
  /// (0: idle).
  size_t poll() noexcept;
  /// poll(), and when idle for up to spin_ns sleeps until traffic, a timer, a posted task or `max_wait_ns`.
  size_t poll_or_wait(DurationNs max_wait_ns) noexcept;
  /// Between turns: sends what is ready to be sent, which else the next turn does.
  void transmit();
  /// When poll() must run next even without traffic; kTimeNever if nothing is pending.
  [[nodiscard]] TimeNs next_timer_ns() const;

  /// Runs `task` on the endpoint's thread. Thread: any. False (task untouched) when the mailbox is
  /// full or the endpoint gone.
  [[nodiscard]] bool post(absl::AnyInvocable<void()>&& task);
  /// What other threads hold on to; outlives the endpoint (posting then returns false).
  [[nodiscard]] std::shared_ptr<Mailbox> mailbox() const;

  [[nodiscard]] const EndpointCounters& counters() const;
  [[nodiscard]] TimeNs now_ns() const;
  [[nodiscard]] size_t session_count() const;
  /// No sessions are left but sessions_reserved.
  [[nodiscard]] bool is_short_of_sessions() const;

  /// What must be zero when everything has come to rest, for tests.
  struct Balance {
    size_t calls = 0;            // accepted, not completed
    size_t handlers = 0;         // tokens not answered
    size_t lent_buffers = 0;     // transport buffers lent out
    size_t pool_buffers = 0;     // assembly buffers in use, but for half-received requests given up by their sender
    size_t messages = 0;         // messages alive, not counting retained responses
    size_t credits_missing = 0;  // credits not back in their sessions
  };
  [[nodiscard]] Balance balance() const;

 private:
  std::unique_ptr<EndpointImpl> impl_;
};

/// The way into an endpoint from other threads: a bounded queue of tasks.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  /// As Endpoint::post(). Thread: any.
  [[nodiscard]] virtual bool post(absl::AnyInvocable<void()>&& task) = 0;
  /// Waits for room; false only if the endpoint is gone. Thread: any but an endpoint's (two endpoints that wait for room in
  /// each other's mailboxes would wait for ever).
  [[nodiscard]] virtual bool post_waiting(absl::AnyInvocable<void()>&& task) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ENDPOINT_H_
