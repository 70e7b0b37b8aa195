// Session: the protocol between two endpoints, as a pure state machine.
//
// Packets and time go in (on_packet, on_timer), packets come out when the driver has room
// (transmit). There is no clock, no I/O and no thread here; the simulator runs exactly this code.
//
// Each direction has `window` sslots; request number n uses slot n % window, so a slot sees rising
// numbers and the receiver can tell new (run it), same (a duplicate: answer again, never run again)
// and old (drop).
//
//   client slot:  free -> sending -> [acknowledged, awaiting] -> [pulling] -> free
//                   |                                 |
//                   request pieces 0..R-1             response piece 0 arrived, 1..P-1 are pulled
//
//   server slot:  idle -> receiving -> executing -> responding -> released
//                            ^                         |  a newer request number, in any state
//                            +-------------------------+
//
// Units. Request pieces 0..R-1 and response pieces R..R+P-1 of a call share one numbering. A unit
// that was sent (or pulled) and not yet settled is in flight and holds one credit; a call in flight
// holds at least one, for the response piece that nobody asked for. Credits are therefore the
// packets in flight, both ways, and all come back when the session is quiet.
//
// Congestion control narrows that: a policy's window may be smaller than the credits, and its gap makes packets
// wait for their departure. Units that are pulled beyond a response's first also come out of the endpoint's receive budget.
//
// The client drives: it repeats request pieces, and pulls response pieces again. The server answers
// and keeps the last response of a slot, and runs no timer for a client. On a reliable transport a
// message is one packet, acknowledgements, credits and probes are skipped, and a broken link makes
// the client repeat what was in flight.
//
// "Transmit work" is state in slots, never queued packets, so nothing here can grow without bound.
#ifndef SKUA_RPC_PROTOCOL_SESSION_H_
#define SKUA_RPC_PROTOCOL_SESSION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"
#include "rpc/protocol/announcement.h"
#include "rpc/protocol/call.h"
#include "rpc/protocol/congestion.h"
#include "rpc/protocol/loss_detector.h"
#include "rpc/protocol/mutants.h"
#include "rpc/protocol/options.h"
#include "rpc/protocol/pacer.h"
#include "rpc/protocol/packet_sets.h"
#include "rpc/protocol/read_pulls.h"
#include "rpc/protocol/receive_budget.h"
#include "rpc/protocol/rtt_estimator.h"
#include "rpc/wire/handshake.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

class Session;

/// Where transmit() puts packets. Implemented by the endpoint (a transport burst) and by tests (a
/// recorder).
class PacketSink {
 public:
  /// Packets that may still be emitted now.
  [[nodiscard]] virtual bool has_room() const = 0;
  /// `payload` (may be null) is held by the sink until the transport no longer reads it.
  virtual void emit(const Session& session, const PacketHeader& header, const MessagePtr& payload, size_t offset,
                    size_t length) = 0;

 protected:
  ~PacketSink() = default;
};

/// A received packet, header decoded and checksum verified.
struct Arrival {
  PacketHeader header;
  ByteSpan payload;
};

/// Memory to put a multi-packet message together in; the lease covers exactly the message.
struct Assembly {
  std::byte* data = nullptr;
  Lease lease;
};

/// A complete request, for the endpoint to hand to a handler.
struct ArrivedRequest {
  uint32_t slot = 0;
  uint32_t req_num = 0;
  uint16_t method = 0;
  bool one_way = false;
  TimeNs deadline_ns = kTimeNever;
  Lease request;
};

/// What a session needs from around it. Implemented by the endpoint.
class SessionHost {
 public:
  /// The session has something to transmit.
  virtual void mark_ready(Session& session) = 0;
  /// Where the session may put a packet right now, ahead of the next transmit(); nullptr: it waits its turn.
  virtual PacketSink* express(const Session& session) = 0;
  /// on_timer() wants to run at `when` (or earlier than what was asked for before).
  virtual void arm_timer(Session& session, TimeNs when) = 0;
  /// The packet now being handled is a whole message: keep its bytes (lent, or copied out under pressure) by `lease`, which is
  /// empty before. False if there is no memory to copy them to.
  virtual bool keep(const Arrival& arrival, Lease& lease) = 0;
  /// Memory for a message of `bytes` from the session's peer, or nothing if there is none, or none for that peer.
  virtual std::optional<Assembly> assemble(const Session& session, size_t bytes) = 0;
  virtual MessagePtr make_message() = 0;
  /// Lends `message` to the peer, which can read the message itself then; empty: it has to go in packets. If the
  /// announcement is pending, on_lent() comes.
  virtual Announcement announce(const MessageOwner& owner, const MessagePtr& message) = 0;
  /// Reads what the peer announced. The session hears of the end by on_fetched(), if it is kStarted.
  enum class Fetch : uint8_t { kStarted, kNoMemory, kImpossible };
  virtual Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) = 0;
  /// When this returns the peer reads no memory of ours any more, whatever it was told.
  virtual void sever(const Session& session) = 0;
  virtual void deliver(Session& session, ArrivedRequest&& request) = 0;
  /// May the method be called one-way?
  [[nodiscard]] virtual bool takes_one_way(uint16_t method) const = 0;
  /// The call left the session for good; its outcome is in it.
  virtual void complete(Call& call) = 0;
  virtual void count_drop(DropReason reason) = 0;
  virtual void count_retransmit() = 0;
  virtual void count_copied(size_t bytes) = 0;

 protected:
  ~SessionHost() = default;
};

/// Who a session is on the wire.
struct SessionAddress {
  uint32_t local_index = 0;
  uint32_t local_generation = 0;
  uint32_t remote_index = 0;
  uint32_t remote_generation = 0;
};

/// Thread: the endpoint's. `host`, `options` and `budget` (may be null: no bound) outlive it.
class Session final : private ReceiveBudget::Waiter {
 public:
  /// `route` is the driver's: whatever it wants to know of a session for each packet.
  Session(SessionHost& host, const ProtocolOptions& options, uint32_t index, ReceiveBudget* budget = nullptr,
          uint32_t route = 0)
      : host_(host), options_(options), route_(route), budget_(budget) {
    address_.local_index = index;
  }
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // --- Life ---
  /// The handshake is complete: calls that waited start.
  void open(const SessionAddress& address, const SessionTerms& terms, bool reliable, TimeNs now);
  /// The peer is lost. Calls that were sent complete with `sent_status`; calls that were not wait
  /// on for a new connection. Requests being received or executed here are forgotten (their answers
  /// will be stale).
  void interrupt(const absl::Status& sent_status, TimeNs now);
  /// Completes all calls, sent or not.
  void abort_all(const absl::Status& status, TimeNs now);
  /// A stream transport lost packets that it had accepted: everything in flight is sent again.
  void on_link_lost(TimeNs now);
  [[nodiscard]] bool is_open() const { return open_; }

  // --- Calls going out ---
  /// RESOURCE_EXHAUSTED when slots and backlog are full; INVALID_ARGUMENT for a message above the
  /// negotiated size. On OK the session refers to `call` until it hands it to host.complete().
  absl::Status start(Call& call, TimeNs now);
  /// Completes the call with `status` now.
  void cancel(Call& call, const absl::Status& status, TimeNs now);

  // --- Calls coming in ---
  /// Answers a delivered request. False if the slot has moved on (the answer is stale).
  bool respond(uint32_t slot, uint32_t req_num, absl::StatusCode code, bool engine_status, MessagePtr&& response,
               TimeNs now);

  // --- The driver's side ---
  void on_packet(const Arrival& arrival, TimeNs now) {
    last_heard_ns_ = now;
    pinged_since_ns_ = 0;
    if (arrival.header.type == PacketType::kResponse) return on_response(arrival, now);
    if (arrival.header.type == PacketType::kRequest) return on_request(arrival, now);
    on_other_packet(arrival, now);
  }
  /// Emits while there is room. True if something is left to send.
  bool transmit(PacketSink& sink, TimeNs now);
  /// Deadlines, probes and liveness. Returns when to come back; kTimeNever if nothing is pending.
  TimeNs on_timer(TimeNs now);
  /// Nothing was heard for peer_timeout although calls are waiting (or pings were sent).
  [[nodiscard]] bool peer_silent(TimeNs now) const;
  [[nodiscard]] TimeNs last_heard_ns() const { return last_heard_ns_; }
  void send_ping();

  /// A message that host.fetch() was asked for is here as a whole, or cannot be had.
  void on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now);
  /// The owner's announcement is pending no more.
  void on_lent(const MessageOwner& owner, TimeNs now);

  /// Before the bytes of a stream payload arrive: is this packet one that on_packet() would use?
  [[nodiscard]] bool expects(const PacketHeader& header) const;
  /// There is no memory for its payload: the call ends with RESOURCE_EXHAUSTED, here or at the caller.
  void on_unplaceable(const PacketHeader& header, TimeNs now);

  [[nodiscard]] const SessionAddress& address() const { return address_; }
  [[nodiscard]] uint32_t route() const { return route_; }
  void set_route(uint32_t route) { route_ = route; }
  /// The connection broke. The peer takes nothing of the session by another one until a ping by it has told where the session is, so
  /// nothing but pings goes out until one is answered.
  void go_quiet() { quiet_ = open_; }
  [[nodiscard]] bool is_quiet() const { return quiet_; }
  [[nodiscard]] const SessionTerms& terms() const { return terms_; }
  [[nodiscard]] const RttEstimator& rtt() const { return rtt_; }
  [[nodiscard]] uint32_t outstanding_calls() const { return active_count_ + backlog_count_; }
  /// Slots of calls that are over, whose memory a READ still needs; 0 when the session is quiet.
  [[nodiscard]] uint32_t lingering_slots() const { return lingering_count_; }
  /// Credits in use; 0 when the session is quiet.
  [[nodiscard]] uint32_t credits_missing() const { return open_ && !reliable_ ? terms_.credits - credits_ : 0; }
  /// What server slots keep until they are used again: responses, for at-most-once, and requests
  /// that are half there because their sender gave up and its release was lost. At most one of them
  /// per slot.
  struct Retained {
    size_t responses = 0;
    size_t requests = 0;
  };
  [[nodiscard]] Retained retained() const;

  /// For the endpoint's list of sessions with something to transmit.
  ListHook ready_hook;

 private:
  struct ClientSlot {
    ListHook ready_hook;
    uint32_t index = 0;
    uint32_t req_num = 0;
    Call* call = nullptr;
    uint32_t request_pieces = 0;   // R
    uint32_t response_pieces = 0;  // P; 0: not known yet
    uint32_t next_unit = 0;        // lowest unit never sent or pulled
    uint32_t credits_held = 0;
    uint32_t pulled = 0;  // units in flight that were taken from the receive budget
    uint32_t probes = 0;  // unanswered in a row
    uint32_t response_bytes = 0;
    bool waits = false;  // for a credit, a departure or the receive budget
    bool release_due = false;
    uint32_t release_req_num = 0;
    TimeNs last_progress_ns = 0;
    ReceivedSet settled;
    LossDetector in_flight;
    std::vector<uint32_t> lost;  // units to send again; bounded by what is in flight
    Assembly response;
    // session_read.cc
    Announcement announced;       // of the request: the peer may be reading the request
    bool fetching = false;        // we are reading the response
    bool packets_wanted = false;  // it could not be read
    uint8_t response_flags = 0;   // of a response that is being read
    uint16_t response_status = 0;
    TimeNs release_again_ns = kTimeNever;

    [[nodiscard]] uint32_t outstanding() const;
    /// Without a call, and not free yet: memory of it is still in use.
    [[nodiscard]] bool lingers() const { return call == nullptr && (fetching || announced); }
  };

  struct ServerSlot {
    enum class State : uint8_t { kIdle, kReceiving, kFetching, kExecuting, kResponding, kReleased };
    ListHook ready_hook;
    uint32_t index = 0;
    uint32_t req_num = 0;
    State state = State::kIdle;
    bool ack_due = false;
    bool one_way = false;
    uint8_t response_flags = 0;
    uint16_t method = 0;
    uint16_t status = 0;
    uint32_t message_bytes = 0;
    uint32_t response_pieces = 0;
    Ticks echo_stamp = 0;
    TimeNs echo_arrival_ns = 0;
    ReceivedSet received;
    WantedSet wanted;
    Assembly request;
    MessagePtr response;
    // session_read.cc
    Announcement announced;           // of the response: the peer may be reading the response
    TimeNs deadline_ns = kTimeNever;  // of a request that is being read, or that came in part
    bool packets_wanted = false;      // it could not be read
    bool release_wanted = false;      // its caller gave up, and waits for us to stop reading
    bool released_due = false;
    uint32_t released_req_num = 0;

    /// Lets go of what was received or answered; whatever comes next has a newer number.
    void forget() {
      ready_hook.unlink();
      ack_due = false;
      if (request.data != nullptr) request = {};
      response.reset();
      if (announced) announced.reset();
      packets_wanted = release_wanted = false;
      state = State::kReleased;
    }
  };

  // Inline functions are used in their own file only; always_inline: the compiler finds them too large, on a path of small calls.
  void make_ready(ClientSlot& slot);
  void make_ready(ServerSlot& slot);
  [[nodiscard]] uint32_t pieces_of(size_t bytes) const {
    if (bytes <= terms_.payload_bytes) return 1;
    return static_cast<uint32_t>((bytes + terms_.payload_bytes - 1) / terms_.payload_bytes);
  }
  [[nodiscard]] uint32_t piece_bytes(size_t message_bytes, uint32_t index) const {
    const size_t offset = size_t{index} * terms_.payload_bytes;
    return static_cast<uint32_t>(std::min<size_t>(terms_.payload_bytes, message_bytes - offset));
  }
  /// The packet's payload is as long as this piece of its message is.
  [[nodiscard]] bool is_whole_piece(const Arrival& arrival) const {
    const PacketHeader& header = arrival.header;
    if (header.message_bytes <= terms_.payload_bytes) {
      return header.packet_index == 0 && arrival.payload.size() == header.message_bytes;
    }
    return header.packet_index < pieces_of(header.message_bytes) &&
           arrival.payload.size() == piece_bytes(header.message_bytes, header.packet_index);
  }
  [[nodiscard]] PacketHeader header_for(PacketType type, uint32_t req_num) const {
    PacketHeader header;
    header.type = type;
    header.session_index = address_.remote_index;
    header.session_generation = address_.remote_generation;
    header.req_num = req_num;
    return header;
  }
  /// Time left, as requests carry it.
  [[nodiscard]] static uint16_t deadline_field(TimeNs deadline_ns, TimeNs now) {
    const TimeNs left_ms = (deadline_ns - now + kMillisecond - 1) / kMillisecond;
    return static_cast<uint16_t>(std::clamp<TimeNs>(left_ms, 0, kDeadlineUnlimited));
  }
  /// Windows are powers of two.
  [[nodiscard]] uint32_t slot_of(uint32_t req_num) const { return req_num & (terms_.window - 1u); }
  void on_other_packet(const Arrival& arrival, TimeNs now);
  void drop(DropReason reason) { host_.count_drop(reason); }

  // Client side.
  void start_backlog(TimeNs now);
  [[gnu::always_inline]] inline void assign(ClientSlot& slot, Call& call, TimeNs now);
  void complete(Call& call, CallOutcome&& outcome);
  void fail(ClientSlot& slot, CallOutcome&& outcome, TimeNs now);
  Call& take_out(ClientSlot& slot);
  inline void finish(ClientSlot& slot, TimeNs now);
  inline void vacate(ClientSlot& slot);
  /// The slot whose call this packet is for; else counts a drop.
  ClientSlot* client_slot_for(const PacketHeader& header) {
    ClientSlot* slot = client_slots_ == nullptr ? nullptr : &client_slots_[slot_of(header.req_num)];
    if (slot != nullptr && slot->call != nullptr && slot->call->sent &&
        (slot->req_num == header.req_num || mutant(Mutant::kAcceptStaleResponse))) [[likely]] {
      return slot;
    }
    drop(DropReason::kUnexpectedResponse);
    return nullptr;
  }
  void on_response(const Arrival& arrival, TimeNs now);
  void on_ack(const Arrival& arrival, TimeNs now);
  void accept_response_piece(ClientSlot& slot, const Arrival& arrival, TimeNs now);
  [[gnu::always_inline]] inline void complete_with_response(ClientSlot& slot, const PacketHeader& header);
  inline bool settle(ClientSlot& slot, uint32_t unit);
  void settle_request(ClientSlot& slot);
  void after_progress(ClientSlot& slot, TimeNs now);
  inline void sample_rtt(const ClientSlot& slot, const Arrival& arrival, uint32_t acked_packets, TimeNs now);
  void tell_congestion(const ClientSlot& slot, const Arrival& arrival, DurationNs sample, uint32_t acked, TimeNs now);
  void observe_packet_size(const ClientSlot& slot, const Arrival& arrival);
  inline bool take_credit(ClientSlot& slot);
  void return_credits(ClientSlot& slot, uint32_t keep);
  bool may_pull(ClientSlot& slot);
  void take_pull(ClientSlot& slot);
  void return_pulls(ClientSlot& slot, uint32_t keep);
  void wake_waiters();
  void on_budget_room() override;
  bool may_depart(TimeNs now);
  void apply_limits();
  void arm(TimeNs when) {
    if (when >= due_ns_) return;  // the host will come by then
    due_ns_ = when;
    host_.arm_timer(*this, when);
  }
  [[nodiscard]] inline bool is_armed_for(const ClientSlot& slot, TimeNs now) const;
  inline void arm_for(const ClientSlot& slot, TimeNs now);
  TimeNs run_due_timers(TimeNs now);
  bool transmit_client(ClientSlot& slot, PacketSink& sink, TimeNs now);
  inline PacketSink* express_for(ClientSlot& slot);
  inline void emit_request_piece(ClientSlot& slot, uint32_t piece, PacketSink& sink, TimeNs now);
  bool emit_pulls(ClientSlot& slot, PacketSink& sink, TimeNs now);
  void emit_pull(ClientSlot& slot, const PacketSet& set, PacketSink& sink, TimeNs now);
  void on_slot_timer(ClientSlot& slot, TimeNs now);
  [[nodiscard]] TimeNs slot_timer_ns(const ClientSlot& slot) const;

  // Messages that are read by their receiver: session_read.cc.
  [[nodiscard]] MessageOwner owner_of(bool is_request, uint32_t req_num) const {
    return {address_.local_index, address_.local_generation, is_request, req_num};
  }
  void announce_request(ClientSlot& slot);
  void emit_announced_request(ClientSlot& slot, PacketSink& sink, TimeNs now);
  void on_announced_response(const Arrival& arrival, TimeNs now);
  void note_rtt(const ClientSlot& slot, const Arrival& arrival, TimeNs now);
  void on_response_fetched(ClientSlot& slot, bool ok, Lease&& message, TimeNs now);
  void complete_fetched(ClientSlot& slot, Lease&& message);
  void fetch_in_packets(ClientSlot& slot, TimeNs now);
  void send_in_packets(ClientSlot& slot, TimeNs now);
  void linger(ClientSlot& slot, TimeNs now);
  void end_linger(ClientSlot& slot, TimeNs now);
  void on_linger_timer(ClientSlot& slot, TimeNs now);
  void on_released(const PacketHeader& header, TimeNs now);
  void on_announced_request(const Arrival& arrival, TimeNs now);
  void on_request_fetched(ServerSlot& slot, bool ok, Lease&& message, TimeNs now);
  void deliver_fetched(ServerSlot& slot, Lease&& message, TimeNs now);
  void refuse_for_memory(ServerSlot& slot, TimeNs now);
  TimeNs end_half_requests(TimeNs now);
  void end_quiet(TimeNs now);
  void refuse(ServerSlot& slot, absl::StatusCode code, std::string_view text, TimeNs now);
  void want_packets(ServerSlot& slot);
  void emit_announced_response(ServerSlot& slot, PacketSink& sink, TimeNs now);
  bool emit_released(ServerSlot& slot, PacketSink& sink);
  void respond_in_packets(ServerSlot& slot);
  void on_read_release(const PacketHeader& header);
  [[nodiscard]] bool peer_may_read() const;

  // Server side.
  inline ServerSlot* server_slot_for(const PacketHeader& header);
  void on_request(const Arrival& arrival, TimeNs now);
  inline void begin_request(ServerSlot& slot, const PacketHeader& header);
  inline void accept_request_piece(ServerSlot& slot, const Arrival& arrival, TimeNs now);
  inline void deliver(ServerSlot& slot, const PacketHeader& header, ArrivedRequest&& arrived, TimeNs now);
  void on_duplicate_request(ServerSlot& slot);
  void on_pull(const Arrival& arrival, TimeNs now);
  void on_release(const PacketHeader& header);
  bool transmit_server(ServerSlot& slot, PacketSink& sink, TimeNs now);
  inline void emit_response_piece(ServerSlot& slot, uint32_t piece, PacketSink& sink, TimeNs now);
  void make_server_slots();

  SessionHost& host_;
  const ProtocolOptions& options_;
  uint32_t route_;
  SessionAddress address_;
  SessionTerms terms_;
  bool open_ = false;
  bool reliable_ = false;
  bool ping_due_ = false;
  bool pong_due_ = false;
  uint32_t credits_ = 0;
  uint32_t active_count_ = 0;
  uint32_t lingering_count_ = 0;
  uint32_t backlog_count_ = 0;
  TimeNs last_heard_ns_ = 0;
  /// Since when calls have been waiting without a break; liveness counts from here or from what was
  /// heard last.
  TimeNs waiting_since_ns_ = 0;
  TimeNs last_ping_ns_ = 0;
  /// When the first ping left that was not answered; 0: none.
  TimeNs pinged_since_ns_ = 0;
  RttEstimator rtt_;

  // Congestion control: what the policy said last, and what it is told next.
  std::unique_ptr<CongestionPolicy> congestion_;
  CongestionLimits limits_;
  /// Credits that the policy's window does not let the session use.
  uint32_t credits_barred_ = 0;
  uint32_t acked_since_loss_ = 0;
  /// Usual size of the packets that told of congestion: limits count full packets, and of smaller ones more fit.
  uint32_t packet_bytes_ = 0;
  Pacer pacer_;
  /// When on_timer() shall let waiting slots depart; kTimeNever: none waits for its departure.
  TimeNs departure_wait_ns_ = kTimeNever;
  /// When on_timer() has other work.
  TimeNs due_ns_ = kTimeNever;
  TimeNs half_due_ns_ = kTimeNever;  // of requests that came in part
  bool quiet_ = false;
  ReceiveBudget* const budget_;
  uint32_t pulled_ = 0;  // over all slots

  // Arrays of terms_.window, made at first use so that an idle session is small.
  std::unique_ptr<ClientSlot[]> client_slots_;
  std::unique_ptr<ServerSlot[]> server_slots_;
  std::vector<uint32_t> free_slots_;
  IntrusiveList<Call, &Call::hook> backlog_;
  IntrusiveList<ClientSlot, &ClientSlot::ready_hook> ready_clients_;
  IntrusiveList<ClientSlot, &ClientSlot::ready_hook> waiting_clients_;
  IntrusiveList<ServerSlot, &ServerSlot::ready_hook> ready_servers_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_H_
