// CalleeHalf: the called side of a session.
//
//   slot:  idle -> receiving -> executing -> responding -> released
//                     ^                         |  a newer request number, in any state
//                     +-------------------------+
//
// Request number n uses slot n % window, so the numbers in a slot rise. This tells apart new numbers (run the request),
// the same number (a duplicate: answer again, never run again) and old numbers (drop). A slot keeps its last response.
// It runs no timer for its caller, except for half-received requests and for responses that hold the application's
// memory.
//
// Files: session_callee.cc, session_callee_read.cc (messages that are read by their receiver), session_callee_kept.cc
// (responses that are kept for long).
#ifndef SKUA_RPC_PROTOCOL_SESSION_CALLEE_H_
#define SKUA_RPC_PROTOCOL_SESSION_CALLEE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/protocol/announcement.h"
#include "rpc/protocol/packet_sets.h"
#include "rpc/protocol/piece_run.h"
#include "rpc/protocol/session_context.h"
#include "rpc/protocol/session_host.h"

namespace skua::rpc {

/// Thread: the endpoint's. `context` must outlive it.
class CalleeHalf final {
 public:
  explicit CalleeHalf(SessionContext& context) : context_(context) {}
  CalleeHalf(const CalleeHalf&) = delete;
  CalleeHalf& operator=(const CalleeHalf&) = delete;

  // --- Life: as Session's methods of these names
  void open();
  void interrupt();

  /// False: the slot has a newer request.
  bool respond(uint32_t slot, uint32_t req_num, absl::StatusCode code, bool engine_status, MessagePtr&& response,
               TimeNs now);

  // --- What comes in
  void on_request(const Arrival& arrival, TimeNs now);
  /// As Session's methods of these names.
  [[nodiscard]] bool join(const PacketHeader& header, PieceRun& run) const;
  void take_run(const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now);
  void on_pull(const Arrival& arrival, TimeNs now);
  void on_release(const PacketHeader& header);
  /// A request that was fetched has arrived completely, or cannot be fetched.
  void on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now);
  /// A response's announcement is no longer pending.
  void on_lent(const MessageOwner& owner);
  [[nodiscard]] bool expects(const PacketHeader& header) const;
  void on_unplaceable(const PacketHeader& header, TimeNs now);

  // --- What goes out
  /// Emits while there is room. True if something is left to send.
  bool transmit(PacketSink& sink, TimeNs now);

  /// Ends requests whose rest did not come in time; asks for responses that are kept for long. Returns when to run it
  /// next.
  TimeNs run_timers(TimeNs now);

  /// A small request came for an sslot that this half uses: the sslot becomes a small call's again. False: the request
  /// must not be run.
  bool yield_slot(uint32_t number);

  /// What slots keep until they are used again: responses, and half-received requests.
  [[nodiscard]] size_t retained_responses() const;
  [[nodiscard]] size_t retained_requests() const;
  /// The peer may be reading a response.
  [[nodiscard]] bool is_announcing() const;
  /// True: the peer was asked about a response, and nothing was heard from it since.
  [[nodiscard]] bool is_asking() const { return asked_ns_ > context_.last_heard_ns; }

 private:
  struct Slot {
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
    // session_callee_read.cc
    Announcement announced;           // of the response: the peer may be reading the response
    TimeNs deadline_ns = kTimeNever;  // of a request that is being read, or of a half-received one
    bool packets_wanted = false;      // the message could not be read
    bool release_wanted = false;      // the caller gave up, and waits until we stop reading
    bool released_due = false;
    uint32_t released_req_num = 0;
    // session_callee_kept.cc
    TimeNs question_ns = kTimeNever;  // when to ask whether the caller has the response
    uint32_t questions = 0;           // questions without an answer

    /// The response's time stamp: the request's stamp plus the time that it was held here.
    [[nodiscard]] Ticks echo(TimeNs now) const { return echo_stamp + to_ticks(now - echo_arrival_ns); }
    /// Releases what was received or answered. The next request in the slot has a newer number.
    void forget() {
      ready_hook.unlink();
      ack_due = false;
      if (request.data != nullptr) request = {};
      response.reset();
      if (announced) announced.reset();
      packets_wanted = release_wanted = false;
      question_ns = kTimeNever;
      state = State::kReleased;
    }
  };

  void make_ready(Slot& slot);
  void make_slots();
  Slot& slot_for(const PacketHeader& header) { return slot_at(context_.slot_of(header.req_num)); }
  /// From now on this half has the sslot; it takes over what a small call left there.
  Slot& slot_at(uint32_t index) {
    if (slots_ == nullptr) [[unlikely]] {
      make_slots();
    }
    if (context_.hot.server()[index].state != ServerSlot::State::kLarge) [[unlikely]] {
      take_over(index);
    }
    return slots_[index];
  }
  void take_over(uint32_t index);

  // Requests.
  inline void begin_request(Slot& slot, const PacketHeader& header);
  inline void accept_request_piece(Slot& slot, const Arrival& arrival, TimeNs now);
  [[nodiscard]] bool begin_run(const Slot& slot, uint32_t piece, PieceRun& run) const;
  void mark(Slot& slot, const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now);
  inline void deliver(Slot& slot, const PacketHeader& header, ArrivedRequest&& arrived, TimeNs now);
  void on_duplicate_request(Slot& slot);
  TimeNs run_half_timers(TimeNs now);
  void refuse_for_memory(Slot& slot, TimeNs now);
  void refuse(Slot& slot, absl::StatusCode code, std::string_view text, TimeNs now);

  // Responses.
  bool transmit_slot(Slot& slot, PacketSink& sink, TimeNs now);
  [[gnu::always_inline]] inline void emit_response_pieces(Slot& slot, uint32_t first, uint32_t count, PacketSink& sink,
                                                          TimeNs now);

  // Messages that are read by their receiver: session_callee_read.cc.
  void on_announced_request(const Arrival& arrival, TimeNs now);
  void on_request_fetched(Slot& slot, bool ok, Lease&& message, TimeNs now);
  void deliver_fetched(Slot& slot, Lease&& message, TimeNs now);
  void want_packets(Slot& slot);
  void emit_announced_response(Slot& slot, PacketSink& sink, TimeNs now);
  bool emit_released(Slot& slot, PacketSink& sink);
  void respond_in_packets(Slot& slot);
  void on_read_release(const PacketHeader& header);

  // Responses that are kept long: session_callee_kept.cc.
  void keep_in_mind(Slot& slot, TimeNs now);
  TimeNs run_questions(TimeNs now);

  SessionContext& context_;
  TimeNs half_due_ns_ = kTimeNever;      // earliest deadline of half-received requests
  TimeNs question_due_ns_ = kTimeNever;  // earliest question about a response, or earlier
  TimeNs asked_ns_ = 0;
  // An array of terms.window, made at first use so that an idle session is small.
  std::unique_ptr<Slot[]> slots_;
  IntrusiveList<Slot, &Slot::ready_hook> ready_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_CALLEE_H_
