// Endpoint: the engine's event loop on one thread, and the engine's public interface.
//
//            application                                        application
//                |  call(session, method, message, completion)      ^  handler(IncomingCall: lease + reply token)
//   +------------v--------------------------------------------------+---------------------------------------+
//   | Endpoint   sessions, sslots, credits, timers (rpc/protocol), buffers (rpc/memory), mailbox             |
//   +------------+--------------------------------------------------^---------------------------------------+
//                |  tx_burst, reap                                  |  rx_burst, release
//             Transport (sim, tcp, dpdk, verbs), handed in by main
//
// Threads. An endpoint belongs to the thread that made it, or to the thread that called adopt_thread() last. Entry
// points check this, in every build, and abort with a message that says so. Other threads may use only post(), Mailbox
// and ReplyToken. A thread may own several endpoints. There is no global state.
//
// Time. Every call has a deadline. poll() reads the clock once per turn.
//
// Exceptions. An exception that a handler, a completion or an observer throws ends the program.
//
// Outcomes of a call, as absl::Status codes:
//   OK                    the handler's answer is in CallResult::response
//   any                   the handler's own status (CallResult::from_peer is true)
//   DEADLINE_EXCEEDED     the deadline passed; the handler may or may not have run
//   UNAVAILABLE           the peer is gone or cannot be reached; the message carries the evidence
//   ABORTED               the peer restarted while the call was in flight; the handler may have run
//   CANCELLED             cancel() was called, or the session was closed
//   RESOURCE_EXHAUSTED    a limit was reached on this side or at the peer; the message says which
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
#include "rpc/transport/channels.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

class Endpoint;
class EndpointImpl;
class EndpointMailbox;
class Mailbox;
class MemoryAccess;

/// Names the kind of a request: each handler serves one method. Below kMethodMax.
using MethodId = uint16_t;
inline constexpr MethodId kMethodMax = 256;
/// The method of the engine's own calls (EndpointOptions::rehearsal_interval_ns). An application cannot serve it.
inline constexpr MethodId kRehearsalMethod = kMethodMax - 2;

/// A session, by index and generation. The index may be used again for a newer session; the generation tells the two
/// apart, so an id of a closed session is refused.
struct SessionId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  bool operator==(const SessionId&) const = default;
};

/// A call in flight; for cancel(). Ids of completed calls are ignored. Only the endpoint interprets the fields.
struct CallId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  uint32_t number = 0;
};

/// Fields: status, response (a Lease, empty unless OK), from_peer, may_have_executed.
using CallResult = CallOutcome;

/// Receives the outcome of a call. Runs on the endpoint's thread, exactly once per accepted call, from inside poll(),
/// cancel() or the endpoint's destructor; never from inside call(). Captures of up to two pointers are stored without
/// an allocation if they are trivially copyable.
using CompletionFn = OneShot<CallResult>;

struct CallOptions {
  /// Counted from now; above 0 and at most one hour.
  DurationNs timeout_ns = 5 * kSecond;
  /// The caller wants no answer: the completion runs with OK once the peer has the message.
  bool one_way = false;
  /// A recent reading of the endpoint's clock, for callers that have just read it. 0: call() reads the clock itself,
  /// unless it is called from inside poll().
  TimeNs now_ns = 0;
};

/// The duty to answer one call. Move-only. Answer it once, at once or later, from any thread. A token that is destroyed
/// unanswered answers INTERNAL ("the handler dropped its reply token"). Answers given after the endpoint's end are
/// discarded.
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

  /// Answers OK with `message` (null: an empty answer). On another thread the answer travels through the endpoint's
  /// mailbox; if the mailbox is full, the call waits for room.
  void reply(MessagePtr message);
  /// Answers OK with a copy of `bytes`. Up to kFewBytesMax bytes need no message buffer.
  void reply(ByteSpan bytes);
  /// Answers with an error. The first 1,024 bytes of its message are sent along.
  void fail(const absl::Status& status);
  /// Reserves `bytes` of the caller's share of EndpointOptions::answers_limit_bytes. It is meant for answers whose size
  /// has no other bound. Let the returned lease live as long as the answer's bytes: they are released when the caller
  /// has the answer, or is gone. nullopt: the caller's earlier answers have used up the share. Call this on the
  /// endpoint's thread, before answering.
  [[nodiscard]] std::optional<Lease> reserve(size_t bytes);
  /// The session that the call came by (IncomingCall::session); SessionId{}: it has ended. Call this on the endpoint's
  /// thread, before answering.
  [[nodiscard]] SessionId session() const;
  /// False once the token was answered or moved from.
  explicit operator bool() const { return mailbox_ != nullptr; }

 private:
  friend class IncomingCalls;
  ReplyToken(EndpointMailbox* mailbox, SessionId session, uint32_t slot, uint32_t req_num)
      : mailbox_(mailbox), session_(session), slot_(slot), req_num_(req_num) {}
  /// As the constructor, for a token that is empty.
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

  EndpointMailbox* mailbox_ = nullptr;  // each token holds it (EndpointMailbox::hold)
  SessionId session_;
  uint32_t slot_ = 0;
  uint32_t req_num_ = 0;
};

/// One request, as its handler receives it.
struct IncomingCall {
  SessionId session;
  MethodId method = 0;
  /// True: `reply` is empty. Only methods served with ServeOptions::one_way receive such requests.
  bool one_way = false;
  /// By this endpoint's clock. kTimeNever: the caller's deadline does not fit the header.
  TimeNs deadline_ns = kTimeNever;
  /// When the engine took the request from the transport.
  TimeNs received_ns = 0;
  Lease request;
  ReplyToken reply;
};

/// Runs on the endpoint's thread from inside poll(). It may make calls, answer now or later, and keep the lease. It
/// must not block.
using HandlerFn = absl::AnyInvocable<void(IncomingCall&&)>;

struct ServeOptions {
  /// True: the handler also takes one-way calls, whose reply token is empty. False: the engine answers one-way calls
  /// with FAILED_PRECONDITION, and they do not reach the handler.
  bool one_way = false;
  /// True: requests may run in the last handlers_reserved places.
  bool may_have_reserved = false;
};

/// What happened to a session. The observer runs on the endpoint's thread.
struct SessionEvent {
  enum class Kind : uint8_t {
    kConnected,    // a session that we opened is ready
    kAccepted,     // a peer opened the session
    kBroken,       // a session that we opened was lost; calls in flight got their outcome; the endpoint reconnects
    kReconnected,  // ready again, with a new generation at the peer
    kLinkLost,     // the connection broke; the session lives on, and repeats over the next one what was in flight
    kClosed,       // the session has ended for good; `why` says why
  };
  Kind kind = Kind::kClosed;
  SessionId session;
  EndpointIdentity peer;
  absl::Status why;
};
using SessionEventFn = absl::AnyInvocable<void(const SessionEvent&)>;

struct EndpointOptions {
  ProtocolOptions protocol;
  /// Limit for all sessions of this endpoint: those that it opened and those that it accepted.
  uint32_t sessions_max = 1024;
  /// So many of sessions_max are reserved for sessions that this endpoint opens, and for peers that keep_for() accepts.
  uint32_t sessions_reserved = 0;
  /// Limit for sessions that one peer opened. Further offers of the peer are refused with RESOURCE_EXHAUSTED.
  uint32_t sessions_per_peer_max = 1024;
  /// Limit for sessions that all peers at one host opened.
  uint32_t sessions_per_host_max = 1024;
  /// Limit for accepted sessions from which no packet came yet. When it is reached, a further offer ends the oldest
  /// session of the source that has most of them.
  uint32_t sessions_unproven_max = 256;
  /// Limit for calls that were accepted and have not completed, over all sessions.
  uint32_t calls_max = 1u << 16;
  /// Limit for handlers that run or have not answered yet, over all sessions. Further requests are refused with
  /// RESOURCE_EXHAUSTED.
  uint32_t handlers_max = 1u << 16;
  /// So many of handlers_max are reserved for methods that are served with may_have_reserved: for requests that others
  /// wait for while they hold their places.
  uint32_t handlers_reserved = 0;
  /// Limit for tasks that wait in the mailbox.
  uint32_t mailbox_max = 1u << 14;
  /// Limit for message memory: the assembly of large messages, and copies of lent packets.
  size_t memory_limit_bytes = size_t{1} << 30;
  /// Part of message memory is kept for what peers send that keep_for() accepts, and for answers to this endpoint's own
  /// calls: one message of any size that the memory has room for at all. Requests beyond that size are refused for
  /// good.
  bool keeps_memory_reserve = false;
  /// Limit for the memory of answers that their callers do not have yet. Counts only what handlers reserve
  /// (ReplyToken::reserve).
  size_t answers_limit_bytes = size_t{1} << 30;
  /// poll_or_wait() spins this long after the last work before it sleeps; it spins less when spinning mostly finds no
  /// work (spin_policy.h). kTimeNever: never sleep (`busy` polling).
  DurationNs spin_ns = 50 * kMicrosecond;
  /// An endpoint that never sleeps, and whose application makes no calls, makes a small call of its own this often, in
  /// turn on each session that it opened. This keeps the code and data of a call in the caches of both processors.
  /// 0: never.
  DurationNs rehearsal_interval_ns = 10 * kMillisecond;
  /// Whether peers may open sessions to this endpoint.
  bool accept_sessions = true;
  /// False: a session is accepted by accept_offer() only, not by packets (connect()). So whoever carries the offers
  /// decides who may open one.
  bool accept_by_packet = true;
  /// Small calls share packets (bundles). This needs protocol version 2 at the peer, and a transport with frames.
  bool bundles = true;
  /// True: the wire to every peer detects damage by itself (shared memory, for example). Large messages then carry no
  /// checksums in sessions whose peer says the same.
  bool trusted_wire = false;
  /// For simulations only, which must repeat exactly. Above 0, session generations and nonces follow from this seed, so
  /// anybody who knows the seed can guess them. 0: the system draws them. tests/tidy fails if a program sets this.
  uint64_t simulation_seed = 0;
};

/// Counters of one endpoint, always on; see counters().
struct EndpointCounters {
  uint64_t calls_started = 0;
  uint64_t calls_completed = 0;
  uint64_t requests_served = 0;
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t retransmits = 0;
  /// Payload bytes that the engine copied on receive: assembly, and copies of lent packets above the watermark.
  /// Transports count their own copies.
  uint64_t rx_copied_bytes = 0;
  /// Payload bytes that the engine copied on transmit: pieces of large messages, where the wire copies its input
  /// anyhow.
  uint64_t tx_copied_bytes = 0;
  /// Payload bytes given to the application in the transport's receive buffer.
  uint64_t rx_zero_copy_bytes = 0;
  uint64_t leases_copied_out = 0;
  /// Bytes of messages read from peers' memory (rpc/transport/one_sided.h).
  uint64_t rx_read_bytes = 0;
  /// Messages that such a read failed for; they were sent in packets instead.
  uint64_t reads_failed = 0;
  uint64_t sessions_broken = 0;
  uint64_t sessions_reconnected = 0;
  uint64_t stale_replies = 0;
  uint64_t requests_refused = 0;
  /// Packets dropped, by reason. The index is a DropReason.
  std::array<uint64_t, kDropReasonCount> drops{};
};

/// Thread: see the head of this file. Destroy it on the owner's thread, outside poll(). The transport, the clock and
/// everything that handlers capture must outlive the endpoint. Leases and messages made from the endpoint must not.
class Endpoint {
 public:
  Endpoint(Transport& transport, const Clock& clock, const EndpointOptions& options);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Makes the calling thread the owner (hand-over from main to a worker). No other thread may use the endpoint
  /// meanwhile.
  void adopt_thread();

  /// Requests for `method` go to `handler`. A method has one handler; null removes it. Call this before the first
  /// poll().
  void serve(MethodId method, HandlerFn handler, const ServeOptions& options = {});
  /// Sets the observer of session events, the only one. It replaces an earlier observer.
  void on_session_event(SessionEventFn observer);
  /// `may_have` says whether an accepted session may use one of sessions_reserved. The identity is only what the peer
  /// claims. The application has to check the claim in another way, and close the session if it is false.
  void keep_for(absl::AnyInvocable<bool(const EndpointIdentity& peer) const> may_have);
  /// For handlers that gather requests and answer them together. `observer` runs after the handlers of a burst, or of a
  /// large bundle, and before their answers are sent and before a completion runs. So it may run several times in a
  /// turn, and runs at least once in a turn that received something. Call this before the first poll().
  void on_burst_end(absl::AnyInvocable<void()> observer);

  // --- Sessions ------------------------------------------------------------------------------------------------------
  /// Opens a session with packets on the transport itself, and retries until the session is ready or closed. Calls may
  /// be made at once. They wait for the connection, at most until their deadline or connect_timeout. After
  /// connect_timeout, waiting calls fail with UNAVAILABLE at each retry.
  /// Errors: those of Transport::resolve(); RESOURCE_EXHAUSTED (sessions_max).
  absl::StatusOr<SessionId> connect(const Descriptor& peer);

  /// As connect(), but another channel (gRPC) carries the handshake: send the returned offer to the peer's
  /// accept_offer(), and give its answer to finish_connect(). Calls may be made at once.
  struct Offer {
    SessionId session;
    std::string bytes;
  };
  absl::StatusOr<Offer> begin_connect(const Descriptor& peer);
  absl::Status finish_connect(SessionId session, ByteSpan answer);
  /// The accepting side: makes the session and returns the answer, which may be a refusal. `origin`: what the carrier
  /// of the offer knows of its sender. `accepted` gets the session that the offer made, now or when it came before; a
  /// refusal leaves it as it is. If the transport has channels, the answer is a secret of the two ends: its carrier
  /// must encrypt it.
  std::string accept_offer(ByteSpan offer, const OfferOrigin& origin = {}, SessionId* accepted = nullptr);

  /// Completes outstanding calls with CANCELLED, tells the peer once, and frees the session. The completions run in the
  /// next poll().
  void close(SessionId session);
  [[nodiscard]] bool is_connected(SessionId session) const;
  /// The identity of the peer; all zero before the session is ready.
  [[nodiscard]] EndpointIdentity peer_identity(SessionId session) const;
  /// The random number of the offer that made the session; 0: no such session. Both ends know it, and otherwise only
  /// those who see their packets. So an application can ask a peer by another channel whether it opened this session.
  [[nodiscard]] uint64_t session_nonce(SessionId session) const;
  [[nodiscard]] Descriptor local_descriptor() const;

  // --- Memory --------------------------------------------------------------------------------------------------------
  /// Makes application memory known to the transport, once, so that message bodies in it are sent without a copy. The
  /// memory must stay mapped until unregister_memory() or the endpoint's end. Bodies in other memory may be copied; the
  /// transport counts such copies. RESOURCE_EXHAUSTED names the limit and how to raise it.
  absl::Status register_memory(MutableByteSpan region);
  void unregister_memory(MutableByteSpan region);
  /// The transport's one-sided operations, for code that lends memory to peers (rpc/memory_access.h).
  [[nodiscard]] MemoryAccess& memory_access();

  // --- Calls ---------------------------------------------------------------------------------------------------------
  /// An empty message from the endpoint's pool. It must not outlive the endpoint.
  [[nodiscard]] MessagePtr make_message();
  /// Sends `request`. `completion` runs exactly once if OK is returned, and never if an error is returned.
  /// Errors: INVALID_ARGUMENT (size, timeout), NOT_FOUND (session closed), RESOURCE_EXHAUSTED (the message says which
  /// limit), CANCELLED (the endpoint is shutting down).
  absl::StatusOr<CallId> call(SessionId session, MethodId method, MessagePtr request, const CallOptions& options,
                              CompletionFn completion);
  /// As above, with a copy of `request`. Up to kFewBytesMax bytes need no message buffer.
  absl::StatusOr<CallId> call(SessionId session, MethodId method, ByteSpan request, const CallOptions& options,
                              CompletionFn completion);
  /// Completes the call with CANCELLED if it is still in flight. The request's memory is released when the transport no
  /// longer uses it.
  void cancel(CallId call) noexcept;

  // --- The loop ------------------------------------------------------------------------------------------------------
  /// One turn: receive, mailbox, timers, transmit. Never blocks. Returns the amount of work done (0: idle).
  size_t poll() noexcept;
  /// As poll(). After spin_ns without work it also sleeps until there is traffic, a timer or a posted task, at most
  /// `max_wait_ns`.
  size_t poll_or_wait(DurationNs max_wait_ns) noexcept;
  /// poll_or_wait()'s sleep, for an event loop of somebody else's. The loop sleeps until wait_fd() is readable, or for
  /// as long as begin_wait() says, and then calls end_wait() and poll(). Between begin_wait() and end_wait() only what
  /// other threads may call is allowed.
  /// wait_fd() is -1 if the transport has no descriptor to sleep on. It belongs to the transport, and stays the same.
  [[nodiscard]] int wait_fd() const;
  /// 0: there is work: poll() first; end_wait() is not called then. Otherwise how long the loop may sleep, at most
  /// `max_wait_ns`. `polled`: what the latest poll() or poll_or_wait() has returned.
  [[nodiscard]] DurationNs begin_wait(DurationNs max_wait_ns, size_t polled) noexcept;
  void end_wait() noexcept;
  /// Sends what is ready to be sent, instead of leaving that to the next turn. Call it between turns.
  void transmit();
  /// When poll() must run next even without traffic; kTimeNever: nothing is pending.
  [[nodiscard]] TimeNs next_timer_ns() const;

  /// Runs `task` on the endpoint's thread. Thread: any. False: the mailbox is full or the endpoint is gone; `task` is
  /// untouched.
  [[nodiscard]] bool post(absl::AnyInvocable<void()>&& task);
  /// For other threads to keep. It outlives the endpoint; posting then returns false.
  [[nodiscard]] std::shared_ptr<Mailbox> mailbox() const;

  [[nodiscard]] const EndpointCounters& counters() const;
  [[nodiscard]] TimeNs now_ns() const;
  [[nodiscard]] size_t session_count() const;
  /// Only the reserved sessions (sessions_reserved) are left.
  [[nodiscard]] bool is_short_of_sessions() const;

  /// For tests: every field must be zero once no work is left.
  struct Balance {
    size_t calls = 0;            // accepted, not completed
    size_t handlers = 0;         // reply tokens not answered
    size_t lent_buffers = 0;     // transport buffers lent out
    size_t pool_buffers = 0;     // assembly buffers in use, without half-received requests that their sender gave up
    size_t messages = 0;         // messages alive, without retained responses
    size_t credits_missing = 0;  // credits not back in their sessions
  };
  [[nodiscard]] Balance balance() const;

 private:
  std::unique_ptr<EndpointImpl> impl_;
};

/// A bounded queue of tasks, by which other threads reach an endpoint.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  /// As Endpoint::post(). Thread: any.
  [[nodiscard]] virtual bool post(absl::AnyInvocable<void()>&& task) = 0;
  /// As post(), but waits for room. False only if the endpoint is gone. Thread: any but an endpoint's, because two
  /// endpoints that wait for room in each other's mailboxes would wait for ever.
  [[nodiscard]] virtual bool post_waiting(absl::AnyInvocable<void()>&& task) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ENDPOINT_H_
