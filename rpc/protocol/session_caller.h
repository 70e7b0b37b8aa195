// CallerHalf: the calling side of a session.
//
//   slot:  free -> sending -> [acknowledged, awaiting] -> [pulling] -> free
//            |                                 |
//            request pieces 0..R-1             response piece 0 arrived, 1..P-1 are pulled
//
// Units. The request pieces 0..R-1 and response pieces R..R+P-1 of a call share one numbering. A unit is in flight from
// when it was sent (or pulled) until it is settled, and then holds one credit. A call in flight holds at least one
// credit, for the first response piece, which comes without a pull. So credits are the packets in flight, both ways,
// and all of them come back when the session is at rest.
//
// Congestion control may allow less: a policy's window may be smaller than the credits, and its gap makes packets wait
// for their departure. Response units that are pulled also count in the endpoint's receive budget.
//
// The caller repeats what is lost: it sends request pieces again, and pulls response pieces again. On a reliable
// transport there are no credits, probes or budgets: whatever is sent arrives, so nobody asks again. A message is one
// packet there, unless packets are sealed: then it comes in pieces all the same. When the link breaks, the caller
// repeats what was in flight.
//
// Files: session_caller.cc (calls, and what comes in), session_caller_send.cc (credits, what goes out, timers),
// session_caller_read.cc (large messages that their receiver reads), session_caller_small.cc (small calls that become
// large ones).
#ifndef SKUA_RPC_PROTOCOL_SESSION_CALLER_H_
#define SKUA_RPC_PROTOCOL_SESSION_CALLER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/protocol/announcement.h"
#include "rpc/protocol/call.h"
#include "rpc/protocol/congestion.h"
#include "rpc/protocol/loss_detector.h"
#include "rpc/protocol/pacer.h"
#include "rpc/protocol/packet_sets.h"
#include "rpc/protocol/piece_run.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/receive_budget.h"
#include "rpc/protocol/rtt_estimator.h"
#include "rpc/protocol/session_context.h"
#include "rpc/protocol/session_host.h"

namespace skua::rpc {

/// Thread: the endpoint's. `context` and `budget` (null: no limit) must outlive it.
class CallerHalf final : private ReceiveBudget::Waiter {
 public:
  CallerHalf(SessionContext& context, ReceiveBudget* budget) : context_(context), budget_(budget) {}
  ~CallerHalf();
  CallerHalf(const CallerHalf&) = delete;
  CallerHalf& operator=(const CallerHalf&) = delete;

  // --- Life: as Session's methods of these names
  void open(TimeNs now);
  void interrupt(const absl::Status& sent_status, TimeNs now);
  void abort_backlog(const absl::Status& status);
  void on_link_lost(TimeNs now);

  // --- Small calls: session_caller_small.cc
  /// All small calls go on as calls of this half.
  void take_over_all(TimeNs now);
  /// The memory of the session's sslots was made.
  void on_slots_made();
  void on_slot_freed(TimeNs now);
  void on_small_sample(DurationNs delay_ns, uint32_t answers, uint32_t record_bytes, TimeNs now);
  void cancel_small(uint32_t number, const absl::Status& status, TimeNs now);
  /// Tells small calls whether calls wait here: small calls must not overtake them.
  void tell_busy() {
    context_.hot.hinder(SessionHot::kBusy, !backlog_.empty() || !waiting_.empty() || wants_first_credit());
  }

  // --- Calls
  absl::Status start(Call& call, TimeNs now);
  void cancel(Call& call, const absl::Status& status, TimeNs now);

  // --- What comes in
  void on_response(const Arrival& arrival, TimeNs now);
  /// As Session's methods of these names.
  [[nodiscard]] bool join(const PacketHeader& header, PieceRun& run) const;
  void take_run(const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now);
  void on_ack(const Arrival& arrival, TimeNs now);
  void on_released(const PacketHeader& header, TimeNs now);
  /// A response that was fetched has arrived completely, or cannot be fetched.
  void on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now);
  /// A request's announcement is no longer pending.
  void on_lent(const MessageOwner& owner, TimeNs now);
  [[nodiscard]] bool expects(const PacketHeader& header) const;
  void on_unplaceable(const PacketHeader& header, TimeNs now);

  // --- What goes out
  /// Emits while there is room. True if something is left to send.
  bool transmit(PacketSink& sink, TimeNs now);

  // --- Time
  /// When depart() has work.
  [[nodiscard]] TimeNs departure_ns() const { return departure_wait_ns_; }
  /// Lets slots that wait for their departure send, if it is time.
  void depart(TimeNs now);
  /// Runs deadlines and probes. Returns when to run it next.
  TimeNs run_timers(TimeNs now);

  // --- Figures
  [[nodiscard]] const RttEstimator& rtt() const { return rtt_; }
  [[nodiscard]] uint32_t outstanding_calls() const { return active_count_ + backlog_count_ + context_.hot.small_count; }
  [[nodiscard]] uint32_t lingering_slots() const { return lingering_count_; }
  /// True: the peer has to send something.
  [[nodiscard]] bool is_waiting() const { return active_count_ + lingering_count_ > 0; }
  /// When the wait for the peer began. A call that ended without a packet from the peer is a part of the wait. Liveness
  /// counts from here, or from when the peer was last heard.
  [[nodiscard]] TimeNs waiting_since_ns() const { return waiting_since_ns_; }
  [[nodiscard]] uint32_t credits_missing() const {
    return context_.open && !context_.reliable
               ? (missing_quarters() + SessionHot::kQuarters - 1) / SessionHot::kQuarters
               : 0;
  }
  /// The peer may be reading a request.
  [[nodiscard]] bool is_announcing() const;

 private:
  [[nodiscard]] uint32_t missing_quarters() const {
    return static_cast<uint32_t>(static_cast<int32_t>(SessionHot::kQuarters * context_.terms.credits) -
                                 context_.hot.credits);
  }

  struct Slot {
    ListHook ready_hook;
    uint32_t index = 0;
    uint32_t req_num = 0;
    Call* call = nullptr;
    uint32_t request_pieces = 0;   // R
    uint32_t response_pieces = 0;  // P; 0: not known yet
    uint32_t next_unit = 0;        // lowest unit that was never sent or pulled
    uint32_t credits_held = 0;
    uint32_t pulled = 0;  // units in flight that count in the receive budget
    uint32_t probes = 0;  // probes in a row without an answer
    uint32_t response_bytes = 0;
    bool waits = false;  // for a credit, a departure or the receive budget
    bool release_due = false;
    uint32_t release_req_num = 0;
    TimeNs last_progress_ns = 0;
    ReceivedSet settled;
    LossDetector in_flight;
    std::vector<uint32_t> lost;  // units to send again; not more than are in flight
    Assembly response;
    // session_caller_read.cc
    Announcement announced;       // of the request: the peer may be reading the request
    bool fetching = false;        // we are reading the response
    bool packets_wanted = false;  // the response could not be read
    uint8_t response_flags = 0;   // of a response that is being read
    uint16_t response_status = 0;
    TimeNs release_again_ns = kTimeNever;

    [[nodiscard]] uint32_t outstanding() const;
    /// True: the call is over, but its memory is still in use, so the slot is not free.
    [[nodiscard]] bool lingers() const { return call == nullptr && (fetching || announced); }
  };

  // Inline functions are used only in the file that defines them. always_inline: without it the compiler does not
  // inline these, because of their size; they are on the path of each call.
  void make_ready(Slot& slot);
  /// The time left, in the units of a request's header.
  [[nodiscard]] static uint16_t deadline_field(TimeNs deadline_ns, TimeNs now) {
    const TimeNs left_ms = (deadline_ns - now + kMillisecond - 1) / kMillisecond;
    return static_cast<uint16_t>(std::clamp<TimeNs>(left_ms, 0, kDeadlineUnlimited));
  }

  // Small calls.
  [[nodiscard]] bool is_small(uint32_t number) const {
    if (context_.hot.small_count == 0) return false;
    const ClientSlot& slot = context_.hot.client[context_.slot_of(number)];
    return slot.state == ClientSlot::State::kSmall && slot.req_num == number;
  }
  Slot& take_over(uint32_t index, TimeNs now);
  void repeat(Slot& slot, TimeNs now);
  TimeNs run_small_timers(TimeNs now);
  /// Small calls leave a whole credit for a call that waits for its first one. Otherwise they would take each quarter
  /// that comes back, and the call would never have a whole credit.
  [[nodiscard]] bool has_credit_for_small() const {
    const SessionHot& hot = context_.hot;
    const int left_over = wants_first_credit() ? static_cast<int>(SessionHot::kQuarters) : 0;
    return hot.credits - hot.credits_barred >= hot.charge + left_over;
  }
  /// A call is in an sslot, and nothing of it was sent.
  [[nodiscard]] bool wants_first_credit() const { return unsent_count_ > 0 && !context_.reliable; }
  void note_sent(Call& call) {
    unsent_count_ -= call.sent ? 0 : 1;
    call.sent = true;
  }

  // Calls.
  void make_slots();
  /// Takes a free sslot. There must be one.
  Slot& take_slot() { return slots_[context_.hot.take_slot(ClientSlot::State::kLarge)]; }
  void start_backlog(TimeNs now);
  /// True: the call can be a small one, once there is an sslot and credit for it.
  [[nodiscard]] bool may_be_small(const Call& call, TimeNs now) const;
  /// A call is now in flight, and none was before.
  void begin_waiting(TimeNs now);
  [[gnu::always_inline]] inline void assign(Slot& slot, Call& call, TimeNs now);
  void complete(Call& call, CallOutcome&& outcome);
  void fail(Slot& slot, CallOutcome&& outcome, TimeNs now);
  Call& take_out(Slot& slot);
  inline void finish(Slot& slot, TimeNs now);
  inline void vacate(Slot& slot);

  // What comes in.
  /// The slot whose call this packet is for. Null: there is none, and a drop was counted.
  Slot* slot_for(const PacketHeader& header) {
    Slot* slot = slots_ == nullptr ? nullptr : &slots_[context_.slot_of(header.req_num)];
    if (slot != nullptr && slot->call != nullptr && slot->call->sent &&
        (slot->req_num == header.req_num || mutant(Mutant::kAcceptStaleResponse))) [[likely]] {
      return slot;
    }
    if (is_small(header.req_num)) return &take_over(context_.slot_of(header.req_num), context_.last_heard_ns);
    context_.drop(DropReason::kUnexpectedResponse);
    return nullptr;
  }
  void release_if_over(uint32_t number);
  void accept_response_piece(Slot& slot, const Arrival& arrival, TimeNs now);
  [[nodiscard]] bool begin_run(const Slot& slot, uint32_t piece, PieceRun& run) const;
  void mark(Slot& slot, const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now);
  [[gnu::always_inline]] inline void complete_with_response(Slot& slot, const PacketHeader& header);
  inline void settle(Slot& slot, uint32_t first, uint32_t end);
  void settle_request(Slot& slot);
  void after_progress(Slot& slot, TimeNs now);
  inline void sample_rtt(const Slot& slot, const PacketHeader& header, size_t payload_bytes, uint32_t acked_packets,
                         TimeNs now);
  void observe_packet_size(const Slot& slot, const PacketHeader& header, size_t payload_bytes);

  // Credits, window, budget: session_caller_send.cc, as what follows.
  [[nodiscard]] uint32_t usable_credits() const {
    return static_cast<uint32_t>(std::max(context_.hot.credits - context_.hot.credits_barred, 0)) /
           SessionHot::kQuarters;
  }
  /// Takes `count` whole credits, which must be usable.
  void take_credits(uint32_t count) {
    context_.hot.credits =
        static_cast<int16_t>(context_.hot.credits - static_cast<int32_t>(SessionHot::kQuarters * count));
  }
  uint32_t take_credits(Slot& slot, uint32_t wanted);
  void return_credits(Slot& slot, uint32_t keep);
  uint32_t may_pull(Slot& slot, uint32_t wanted);
  void take_pulls(Slot& slot, uint32_t count);
  void return_pulls(Slot& slot, uint32_t keep);
  /// Null: pulls have no limit. A reliable transport's own flow control does for them; nothing would wake a slot there
  /// that waits.
  [[nodiscard]] ReceiveBudget* budget() const { return context_.reliable ? nullptr : budget_; }
  void wake_waiters();
  void on_budget_room() override;
  bool may_depart(TimeNs now);
  void apply_limits();

  // What goes out, and time.
  [[nodiscard]] inline bool is_armed_for(const Slot& slot, TimeNs now) const;
  void arm_for(const Slot& slot, TimeNs now);
  bool transmit_slot(Slot& slot, PacketSink& sink, TimeNs now);
  inline PacketSink* express_for(Slot& slot);
  void emit_request_pieces(Slot& slot, uint32_t first, uint32_t count, PacketSink& sink, TimeNs now);
  bool emit_pulls(Slot& slot, PacketSink& sink, TimeNs now);
  uint32_t add_pulls(Slot& slot, PacketSet& set, uint32_t first, uint32_t count, PacketSink& sink, TimeNs now);
  void emit_pull(Slot& slot, const PacketSet& set, PacketSink& sink, TimeNs now);
  TimeNs run_backlog_timers(TimeNs now);
  void on_slot_timer(Slot& slot, TimeNs now);
  [[nodiscard]] TimeNs slot_timer_ns(const Slot& slot) const;

  // Messages that are read by their receiver: session_caller_read.cc.
  void announce_request(Slot& slot);
  void emit_announced_request(Slot& slot, PacketSink& sink, TimeNs now);
  void on_announced_response(const Arrival& arrival, TimeNs now);
  void note_rtt(const Slot& slot, const Arrival& arrival, TimeNs now);
  void on_response_fetched(Slot& slot, bool ok, Lease&& message, TimeNs now);
  void complete_fetched(Slot& slot, Lease&& message);
  void fetch_in_packets(Slot& slot, TimeNs now);
  void send_in_packets(Slot& slot, TimeNs now);
  void linger(Slot& slot, TimeNs now);
  void end_linger(Slot& slot, TimeNs now);
  void on_linger_timer(Slot& slot, TimeNs now);

  SessionContext& context_;
  uint32_t active_count_ = 0;
  uint32_t unsent_count_ = 0;  // of them, those of which nothing was sent
  uint32_t lingering_count_ = 0;
  uint32_t backlog_count_ = 0;
  TimeNs waiting_since_ns_ = 0;
  RttEstimator rtt_;

  // Congestion control: the policy's last result, and its next input.
  std::unique_ptr<CongestionPolicy> congestion_;
  CongestionLimits limits_;
  uint32_t acked_since_loss_ = 0;
  /// Usual size of the packets that gave signs of congestion. Limits count full packets, so more smaller ones fit.
  uint32_t packet_bytes_ = 0;
  Pacer pacer_;
  /// When depart() shall let waiting slots send. kTimeNever: no slot waits for its departure.
  TimeNs departure_wait_ns_ = kTimeNever;
  ReceiveBudget* const budget_;
  uint32_t pulled_ = 0;  // sum over all slots

  // An array of terms.window, made at first use so that an idle session is small. context_.hot has the credits, and
  // knows which slots are free.
  std::unique_ptr<Slot[]> slots_;
  IntrusiveList<Call, &Call::hook> backlog_;
  IntrusiveList<Slot, &Slot::ready_hook> ready_;
  IntrusiveList<Slot, &Slot::ready_hook> waiting_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_CALLER_H_
