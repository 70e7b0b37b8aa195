// Session: the protocol between two endpoints, as a pure state machine.
//
// Packets and time go in (on_packet, on_timer); packets come out when the driver has room (transmit). There is no
// clock, no I/O and no thread here, so the simulator runs exactly this code.
//
// Each direction has `window` sslots. Request number n uses sslot n % window, so the numbers in an sslot rise. The
// receiver can tell new numbers (run the request), the same number (a duplicate: answer again, never run again) and old
// numbers (drop).
//
//      endpoint  --on_packet, on_timer-->  Session  --requests, pulls-->  CallerHalf   calls of ours
//                <-----transmit, host----           <-responses, acks---  CalleeHalf   calls of the peer's
//                                                   SessionContext: both addresses, and what was agreed
//
// What is left to transmit is state in sslots, never queued packets, so nothing here can grow without bound.
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

/// Thread: the endpoint's. `host`, `options` and `budget` (null: no limit) must outlive it.
class Session final {
 public:
  /// `route` is a number of the driver's, for what it has to know about a session for each packet.
  Session(SessionHost& host, const ProtocolOptions& options, uint32_t index, ReceiveBudget* budget = nullptr,
          uint32_t route = 0)
      : context_(host, options, *this, hot_), route_(route), caller_(context_, budget), callee_(context_) {
    context_.address.local_index = index;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // --- Life ---
  /// The handshake is complete: waiting calls start.
  void open(const SessionAddress& address, const SessionTerms& terms, bool reliable, TimeNs now);
  /// The peer is lost. Calls that were sent complete with `sent_status`. Other calls wait for a new connection.
  /// Requests that are received or executed here are forgotten; their answers will be stale.
  void interrupt(const absl::Status& sent_status, TimeNs now);
  /// Completes all calls, sent or not.
  void abort_all(const absl::Status& status, TimeNs now);
  /// A stream transport lost packets that it had accepted: everything in flight is sent again.
  void on_link_lost(TimeNs now);
  [[nodiscard]] bool is_open() const { return context_.open; }

  // --- Calls going out ---
  /// RESOURCE_EXHAUSTED: sslots and backlog are full. INVALID_ARGUMENT: the message is larger than agreed. On OK the
  /// session refers to `call` until it gives it to host.complete().
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
  /// Answers a delivered request. False: the sslot has a newer request, so the answer is stale.
  bool respond(uint32_t slot, uint32_t req_num, absl::StatusCode code, bool engine_status, MessagePtr&& response,
               TimeNs now) {
    return callee_.respond(slot, req_num, code, engine_status, std::move(response), now);
  }

  // --- Small calls (small_calls.h) ---
  [[nodiscard]] SessionHot& hot() { return hot_; }
  /// Makes the memory of the sslots, at first use.
  void make_slots();
  /// The session's timer will run at `when` or earlier.
  void arm_small(Ticks when, TimeNs now) { context_.arm_small(when, now); }
  /// From now on, small calls pay for answers of `bytes`. So no more bytes are on their way to us than credits allow.
  void charge_for(uint32_t bytes);
  /// A small call left its sslot, while calls wait for an sslot or a credit.
  void on_slot_freed(TimeNs now);
  /// A sample of network delay, from `answers` small calls with records of `record_bytes`.
  void on_small_sample(DurationNs delay_ns, uint32_t answers, uint32_t record_bytes, TimeNs now) {
    caller_.on_small_sample(delay_ns, answers, record_bytes, now);
  }
  /// A small request came for an sslot of the peer's that a large call used: it becomes a small call's again. False:
  /// the request must not be run.
  bool yield_slot(uint32_t number) { return callee_.yield_slot(number); }
  /// Cancels the small call of this number, even if it has become a large one.
  void cancel_small(uint32_t number, const absl::Status& status, TimeNs now) {
    caller_.cancel_small(number, status, now);
    caller_.tell_busy();
  }
  /// The session leaves its association: all small calls go on as large ones.
  void give_up_small(TimeNs now) { caller_.take_over_all(now); }
  /// The session has left its association: calls that waited to become small ones start as large ones.
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
  /// Whether the packet may be the first of a run (piece_run.h). A message's first packet, and packets that come again,
  /// may not: give them to on_packet(). The header may still be damaged.
  [[nodiscard]] bool join(const PacketHeader& header, PieceRun& run) const {
    if (!context_.open) return false;
    return header.type == PacketType::kRequest ? callee_.join(header, run)
                                               : header.type == PacketType::kResponse && caller_.join(header, run);
  }
  /// The first `count` pieces of the run are in their places, intact. The session must have got nothing since join().
  /// `header`: the last piece's.
  void take_run(const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now) {
    context_.last_heard_ns = now;
    context_.pinged_since_ns = 0;
    if (header.type == PacketType::kRequest) return callee_.take_run(header, run, count, now);
    caller_.take_run(header, run, count, now);
    caller_.tell_busy();
  }
  /// Emits while there is room. True if something is left to send.
  bool transmit(PacketSink& sink, TimeNs now);
  /// Runs deadlines, probes and liveness. Returns when to run it next; kTimeNever: nothing is pending.
  TimeNs on_timer(TimeNs now);
  /// True: nothing was heard for peer_timeout, although the peer was asked whether it lives. It is asked while calls
  /// wait or answers are kept.
  [[nodiscard]] bool peer_silent(TimeNs now) const;
  [[nodiscard]] TimeNs last_heard_ns() const { return context_.last_heard_ns; }
  void send_ping();

  /// The message of a host.fetch() has arrived completely, or cannot be fetched.
  void on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now);
  /// The owner's announcement is no longer pending.
  void on_lent(const MessageOwner& owner, TimeNs now);

  /// Whether on_packet() would use this packet. Asked before the payload of a stream's packet arrives.
  [[nodiscard]] bool expects(const PacketHeader& header) const;
  /// There is no memory for the packet's payload: the call ends with RESOURCE_EXHAUSTED, on this side or at the caller.
  void on_unplaceable(const PacketHeader& header, TimeNs now);

  [[nodiscard]] const SessionAddress& address() const { return context_.address; }
  [[nodiscard]] uint32_t route() const { return route_; }
  void set_route(uint32_t route) { route_ = route; }
  /// Packets carry checksums. The driver uses this, too.
  [[nodiscard]] bool is_sealed() const { return is_sealed_; }
  void set_sealed(bool sealed) { is_sealed_ = sealed; }
  /// The connection broke. Over another connection the peer accepts nothing from the session until a ping has told it
  /// where the session is. So only pings go out until one is answered.
  void go_quiet() {
    quiet_ = context_.open;
    hot_.hinder(SessionHot::kQuiet, quiet_);
  }
  [[nodiscard]] bool is_quiet() const { return quiet_; }
  [[nodiscard]] const SessionTerms& terms() const { return context_.terms; }
  [[nodiscard]] const RttEstimator& rtt() const { return caller_.rtt(); }
  [[nodiscard]] uint32_t outstanding_calls() const { return caller_.outstanding_calls(); }
  /// Sslots whose calls are over, while a READ still needs their memory. 0 when the session is at rest.
  [[nodiscard]] uint32_t lingering_slots() const { return caller_.lingering_slots(); }
  /// Credits in use. 0 when the session is at rest.
  [[nodiscard]] uint32_t credits_missing() const { return caller_.credits_missing(); }
  /// What the peer's sslots keep until they are used again: responses, for at-most-once, and half-received requests
  /// whose sender gave up and whose release was lost. At most one of them per sslot.
  struct Retained {
    size_t responses = 0;
    size_t requests = 0;
  };
  [[nodiscard]] Retained retained() const { return {callee_.retained_responses(), callee_.retained_requests()}; }

  /// In the endpoint's list of sessions that have something to transmit.
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
  Ticks heard_small_ = 0;  // the value of hot_.heard when it was last read
  bool ping_due_ = false;
  bool pong_due_ = false;
  bool quiet_ = false;
  uint64_t progress_ = 0;  // SessionHost::progress() at the last look
  TimeNs last_ping_ns_ = 0;
  CallerHalf caller_;
  CalleeHalf callee_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_H_
