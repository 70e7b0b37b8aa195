// Session: the protocol between two endpoints, as a pure state machine.
//
// Packets and time go in (on_packet, on_timer), packets come out when the driver has room
// (transmit). There is no clock, no I/O and no thread here; the simulator runs exactly this code.
//
// Each direction has `window` sslots; request number n uses slot n % window, so a slot sees rising
// numbers and the receiver can tell new (run it), same (a duplicate: answer again, never run again)
// and old (drop).
//
//      endpoint  --on_packet, on_timer-->  Session  --requests, pulls-->  CallerHalf   calls of ours
//                <-----transmit, host----           <-responses, acks---  CalleeHalf   calls of the peer's
//                                                   SessionContext: who both are on the wire, and what was agreed
//
// "Transmit work" is state in slots, never queued packets, so nothing here can grow without bound.
#ifndef SKUA_RPC_PROTOCOL_SESSION_H_
#define SKUA_RPC_PROTOCOL_SESSION_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/protocol/options.h"
#include "rpc/protocol/receive_budget.h"
#include "rpc/protocol/session_callee.h"
#include "rpc/protocol/session_caller.h"
#include "rpc/protocol/session_context.h"
#include "rpc/protocol/session_host.h"

namespace skua::rpc {

/// Thread: the endpoint's. `host`, `options` and `budget` (may be null: no bound) outlive it.
class Session final {
 public:
  /// `route` is the driver's: whatever it wants to know of a session for each packet.
  Session(SessionHost& host, const ProtocolOptions& options, uint32_t index, ReceiveBudget* budget = nullptr,
          uint32_t route = 0)
      : context_(host, options, *this, hot_), route_(route), caller_(context_, budget), callee_(context_) {
    context_.address.local_index = index;
  }
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
  [[nodiscard]] bool is_open() const { return context_.open; }

  // --- Calls going out ---
  /// RESOURCE_EXHAUSTED when slots and backlog are full; INVALID_ARGUMENT for a message above the
  /// negotiated size. On OK the session refers to `call` until it hands it to host.complete().
  absl::Status start(Call& call, TimeNs now) {
    absl::Status status = caller_.start(call, now);
    caller_.tell_busy();
    return status;
  }
  /// Completes the call with `status` now.
  void cancel(Call& call, const absl::Status& status, TimeNs now) {
    caller_.cancel(call, status, now);
    caller_.tell_busy();
  }

  // --- Calls coming in ---
  /// Answers a delivered request. False if the slot has moved on (the answer is stale).
  bool respond(uint32_t slot, uint32_t req_num, absl::StatusCode code, bool engine_status, MessagePtr&& response,
               TimeNs now) {
    return callee_.respond(slot, req_num, code, engine_status, std::move(response), now);
  }

  // --- Small calls (small_calls.h) ---
  [[nodiscard]] SessionHot& hot() { return hot_; }
  /// Its sslots exist from here on.
  void make_slots();
  /// The session's timer comes then, or before.
  void arm_small(Ticks when, TimeNs now) { context_.arm_small(when, now); }
  /// Small calls pay for answers of `bytes` from here on: so that no more is under way to us than the credits promise.
  void charge_for(uint32_t bytes);
  /// A small call left its sslot, and others wait for one or for its credit.
  void on_slot_freed(TimeNs now);
  /// The network's delay, as `answers` small calls of `record_bytes` each saw it.
  void on_small_sample(DurationNs delay_ns, uint32_t answers, uint32_t record_bytes, TimeNs now) {
    caller_.on_small_sample(delay_ns, answers, record_bytes, now);
  }
  /// An sslot of the peer's that a large call has is a small one's again. False: the request is none to be run.
  bool yield_slot(uint32_t number) { return callee_.yield_slot(number); }
  /// Cancels the small call of that number; or whatever it has become.
  void cancel_small(uint32_t number, const absl::Status& status, TimeNs now) {
    caller_.cancel_small(number, status, now);
    caller_.tell_busy();
  }
  /// All small calls go on as large ones: the session leaves its association.
  void give_up_small(TimeNs now) { caller_.take_over_all(now); }
  /// It has left: calls that waited to be small ones are large.
  void on_association_left(TimeNs now) {
    caller_.on_slot_freed(now);
    caller_.tell_busy();
  }

  // --- The driver's side ---
  void on_packet(const Arrival& arrival, TimeNs now) {
    context_.last_heard_ns = now;
    context_.pinged_since_ns = 0;
    if (arrival.header.type == PacketType::kRequest) return callee_.on_request(arrival, now);
    if (arrival.header.type == PacketType::kResponse) {
      caller_.on_response(arrival, now);
    } else {
      on_other_packet(arrival, now);
    }
    caller_.tell_busy();
  }
  /// May the packet be the first of a run (piece_run.h)? A message's first packet and those that come again are none:
  /// they are for on_packet(). The header may be damaged still.
  [[nodiscard]] bool join(const PacketHeader& header, PieceRun& run) const {
    if (!context_.open) return false;
    return header.type == PacketType::kRequest ? callee_.join(header, run)
                                               : header.type == PacketType::kResponse && caller_.join(header, run);
  }
  /// The first `count` pieces of the run are in their places, intact, and nothing came to the session since it was
  /// joined. `header`: the last one's.
  void take_run(const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now) {
    context_.last_heard_ns = now;
    context_.pinged_since_ns = 0;
    if (header.type == PacketType::kRequest) return callee_.take_run(header, run, count, now);
    caller_.take_run(header, run, count, now);
    caller_.tell_busy();
  }
  /// Emits while there is room. True if something is left to send.
  bool transmit(PacketSink& sink, TimeNs now);
  /// Deadlines, probes and liveness. Returns when to come back; kTimeNever if nothing is pending.
  TimeNs on_timer(TimeNs now);
  /// Nothing was heard for peer_timeout although calls were waiting or answers are kept, and the peer was asked whether
  /// it lives.
  [[nodiscard]] bool peer_silent(TimeNs now) const;
  [[nodiscard]] TimeNs last_heard_ns() const { return context_.last_heard_ns; }
  void send_ping();

  /// A message that host.fetch() was asked for is here as a whole, or cannot be had.
  void on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now);
  /// The owner's announcement is pending no more.
  void on_lent(const MessageOwner& owner, TimeNs now);

  /// Before the bytes of a stream payload arrive: is this packet one that on_packet() would use?
  [[nodiscard]] bool expects(const PacketHeader& header) const;
  /// There is no memory for its payload: the call ends with RESOURCE_EXHAUSTED, here or at the caller.
  void on_unplaceable(const PacketHeader& header, TimeNs now);

  [[nodiscard]] const SessionAddress& address() const { return context_.address; }
  [[nodiscard]] uint32_t route() const { return route_; }
  void set_route(uint32_t route) { route_ = route; }
  /// The driver's as well: packets carry checksums.
  [[nodiscard]] bool is_sealed() const { return is_sealed_; }
  void set_sealed(bool sealed) { is_sealed_ = sealed; }
  /// The connection broke. The peer takes nothing of the session by another one until a ping by it has told where the
  /// session is, so nothing but pings goes out until one is answered.
  void go_quiet() {
    quiet_ = context_.open;
    hot_.hinder(SessionHot::kQuiet, quiet_);
  }
  [[nodiscard]] bool is_quiet() const { return quiet_; }
  [[nodiscard]] const SessionTerms& terms() const { return context_.terms; }
  [[nodiscard]] const RttEstimator& rtt() const { return caller_.rtt(); }
  [[nodiscard]] uint32_t outstanding_calls() const { return caller_.outstanding_calls(); }
  /// Slots of calls that are over, whose memory a READ still needs; 0 when the session is quiet.
  [[nodiscard]] uint32_t lingering_slots() const { return caller_.lingering_slots(); }
  /// Credits in use; 0 when the session is quiet.
  [[nodiscard]] uint32_t credits_missing() const { return caller_.credits_missing(); }
  /// What server slots keep until they are used again: responses, for at-most-once, and requests
  /// that are half there because their sender gave up and its release was lost. At most one of them
  /// per slot.
  struct Retained {
    size_t responses = 0;
    size_t requests = 0;
  };
  [[nodiscard]] Retained retained() const { return {callee_.retained_responses(), callee_.retained_requests()}; }

  /// For the endpoint's list of sessions with something to transmit.
  ListHook ready_hook;

 private:
  void hear_small(TimeNs now);
  void on_other_packet(const Arrival& arrival, TimeNs now);
  void end_quiet(TimeNs now);
  TimeNs run_due_timers(TimeNs now);
  TimeNs run_liveness(TimeNs now);

  SessionHot hot_;
  SessionContext context_;
  uint32_t route_;
  bool is_sealed_ = true;
  Ticks heard_small_ = 0;  // hot_.heard, when it was looked at last
  bool ping_due_ = false;
  bool pong_due_ = false;
  bool quiet_ = false;
  TimeNs last_ping_ns_ = 0;
  CallerHalf caller_;
  CalleeHalf callee_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_H_
