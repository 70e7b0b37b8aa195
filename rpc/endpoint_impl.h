// The inside of an Endpoint. One turn of the loop:
//
//      rx_burst -> dispatch to sessions (bundles: and answers) -> link events -> mailbox tasks -> READs -> timers ->
//      completions
//      -> tx_burst -> reap, release
//
// Sessions say what they want (SessionHost); packets leave when the transport has room: ready sessions wait in a list,
// and fill one burst after another (TransmitStage). Completions of large calls run at the end of the turn's receive
// half, so no session is changed under its own feet; those of small calls run where their bundle is read, when the
// session has put everything down. Sessions are destroyed at the end of the turn for the same reason.
//
// Files: endpoint.cc (public face, the loop), endpoint_calls.cc, endpoint_packets.cc (receive and transmit),
// endpoint_reads.cc (large messages that we read), endpoint_memory.cc (operations on peers' memory that others start),
// endpoint_sessions.cc (how sessions begin), endpoint_session_ends.cc, endpoint_rehearsal.cc. Parts that are classes of
// their own: SessionTable (who is there), TransmitStage (packets of a burst), Bundles (small calls), Loans, ReadPulls.
#ifndef SKUA_RPC_ENDPOINT_IMPL_H_
#define SKUA_RPC_ENDPOINT_IMPL_H_

#include <algorithm>
#include <array>
#include <bitset>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/base/rng.h"
#include "rpc/base/spin_policy.h"
#include "rpc/bundles.h"
#include "rpc/endpoint.h"
#include "rpc/loans.h"
#include "rpc/mailbox.h"
#include "rpc/memory/arena.h"
#include "rpc/memory/buffer_pool.h"
#include "rpc/memory_access.h"
#include "rpc/memory_shares.h"
#include "rpc/protocol/read_pulls.h"
#include "rpc/protocol/receive_budget.h"
#include "rpc/protocol/session.h"
#include "rpc/protocol/timer_heap.h"
#include "rpc/session_table.h"
#include "rpc/transmit_stage.h"
#include "rpc/transport/one_sided.h"

namespace skua::rpc {

class EndpointImpl final : public MemoryAccess, private SessionHost, private RxPlacer, private PeerUse {
 public:
  EndpointImpl(Transport& transport, const Clock& clock, const EndpointOptions& options);
  ~EndpointImpl() override;

  void check_thread() const {
    SKUA_CHECK(mailbox_->on_owner_thread(),
               "an endpoint was used from another thread than its owner's: use post(), or "
               "adopt_thread() after a hand-over");
  }
  /// For entry points that use time: outside a turn the last turn's time may be long past.
  void enter(TimeNs known_now_ns = 0) {
    check_thread();
    if (!in_turn_) now_ns_ = known_now_ns == 0 ? clock_.now_ns() : std::max(now_ns_, known_now_ns);
  }
  void adopt_thread();
  void observe_burst_end(absl::AnyInvocable<void()> observer) {
    burst_end_observer_ = std::move(observer);
    bundles_.gather(static_cast<bool>(burst_end_observer_));
  }

  void serve(MethodId method, HandlerFn handler, const ServeOptions& options);
  absl::StatusOr<SessionId> connect(const Descriptor& peer);
  absl::StatusOr<Endpoint::Offer> begin_connect(const Descriptor& peer);
  absl::Status finish_connect(SessionId session, ByteSpan answer);
  std::string accept_offer(ByteSpan offer, PeerId from, uint64_t source);
  void close(SessionId session);
  [[nodiscard]] const SessionEntry* find(SessionId session) const { return sessions_.find(session); }

  /// False: the call is not a small one; nothing has happened. Inline: nobody but Endpoint::call() calls this.
  template <typename Sent>
  [[gnu::always_inline]] inline bool call_small(SessionId session, MethodId method, Sent request,
                                                const CallOptions& options, CompletionFn& completion, CallId& id);
  /// The same for the engine's own calls: a message with a copy of `bytes`.
  bool call_small(SessionId session, MethodId method, ByteSpan bytes, CompletionFn& completion);
  [[gnu::noinline]] absl::StatusOr<CallId> call_large(SessionId session, MethodId method, MessagePtr& request,
                                                      const CallOptions& options, CompletionFn& completion);
  /// Endpoint::call() of bytes that no sslot can keep. The arguments come together: on the stack, one by one, they
  /// would cost the calls that need none of this.
  struct CopiedCall {
    SessionId session;
    MethodId method;
    const CallOptions* options;
    CompletionFn* completion;
  };
  [[gnu::noinline]] absl::StatusOr<CallId> call_copied(const CopiedCall& call, ByteSpan request);
  void cancel(CallId call);
  /// Answers OK. False: the answer is not a small one; nothing has happened.
  template <typename Sent>
  [[gnu::always_inline]] inline bool answer_small(SessionId wire_session, uint32_t req_num, Sent response);
  /// Answers a request, whatever with; counts it as stale if the session or slot has moved on.
  void answer(SessionId wire_session, uint32_t slot, uint32_t req_num, const absl::Status& status,
              MessagePtr&& message);
  std::optional<Lease> reserve_answer(SessionId wire_session, size_t bytes);
  [[gnu::noinline]] MessagePtr error_message(const absl::Status& status);
  void handler_done() { --handlers_running_; }

  size_t poll();
  size_t poll_or_wait(DurationNs max_wait_ns);
  void transmit_between_turns();
  [[nodiscard]] TimeNs next_timer_ns() const;
  [[nodiscard]] Endpoint::Balance balance() const;

  [[nodiscard]] size_t session_count() const { return sessions_.size(); }
  [[nodiscard]] bool is_short_of_sessions() const { return sessions_.is_short(); }

  MessagePtr make_message() override { return messages_.make(); }

  // MemoryAccess.
  [[nodiscard]] bool offered() const override { return one_sided_ != nullptr; }
  [[nodiscard]] uint64_t life_of(SessionId session) const override;
  [[nodiscard]] bool ready(SessionId session) override;
  void start(Operation& operation) override;
  [[nodiscard]] bool usable(ByteSpan bytes) const override;
  absl::StatusOr<Buffer> allocate(size_t bytes) override;
  absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) override;
  void close_region(uint32_t key) override;
  PeerId reserve_notices(SessionId session, uint32_t count) override;
  void release_notices(PeerId peer, uint32_t count) override;
  void on_notice(absl::AnyInvocable<void(PeerId from, uint32_t number)> observer) override;
  void call_at(TimeNs when, absl::AnyInvocable<void()> task) override;

  Transport& transport_;
  /// The transport's, by value: looked at for every packet.
  const Capabilities capabilities_;
  const Clock& clock_;
  const EndpointOptions options_;
  const std::shared_ptr<EndpointMailbox> mailbox_;
  EndpointCounters counters_;
  SessionEventFn session_observer_;
  absl::AnyInvocable<bool(const EndpointIdentity& peer) const> may_have_reserved_;
  absl::AnyInvocable<void()> burst_end_observer_;
  TimeNs now_ns_ = 0;

 private:
  friend class Bundles;
  friend class FrameLeases;

  /// Gives lent transport buffers back in bursts.
  class TransportLeases final : public LeaseOwner {
   public:
    explicit TransportLeases(EndpointImpl& endpoint) : endpoint_(endpoint) {}
    void return_lease(uint64_t cookie) override;

   private:
    EndpointImpl& endpoint_;
  };
  /// Frees pool buffers that messages were assembled in or copied out to.
  class PoolLeases final : public LeaseOwner {
   public:
    explicit PoolLeases(EndpointImpl& endpoint) : endpoint_(endpoint), shares_(endpoint.options_.memory_limit_bytes) {}
    void return_lease(uint64_t cookie) override;
    /// A cookie for `buffer`, to be returned once.
    uint64_t hold(Buffer buffer, const Payer& payer);
    [[nodiscard]] const MemoryShares& shares() const { return shares_; }

   private:
    struct Held {
      Buffer buffer;
      Payer payer;
    };
    EndpointImpl& endpoint_;
    std::vector<Held> held_;
    std::vector<uint32_t> free_;
    MemoryShares shares_;
  };

  // SessionHost.
  void mark_ready(Session& session) override;
  PacketSink* express(const Session& session) override;
  void arm_timer(Session& session, TimeNs when) override;
  bool keep(const Arrival& arrival, Lease& lease) override;
  std::optional<Assembly> assemble(const Session& session, size_t bytes) override;
  /// Nothing: there is no memory, or none for that payer.
  std::optional<Assembly> allocate_for(const Payer& payer, size_t bytes);
  /// Whose memory a message of the session takes that comes from `from`: who called us. What we asked for ourselves
  /// is nobody's.
  [[nodiscard]] Payer payer_of(const SessionEntry& entry, PeerId from) const;
  Announcement announce(const MessageOwner& owner, const MessagePtr& message) override;
  Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) override;
  void sever(const Session& session) override;
  void deliver(Session& session, ArrivedRequest&& request) override;
  [[nodiscard]] bool takes_one_way(uint16_t method) const override {
    return method < kMethodMax && takes_one_way_[method];
  }
  void complete(Call& call) override {
    call.session_index = UINT32_MAX;
    completed_.push_back(call);
  }
  bool start_small(Session& session, Call& call) override;
  Call& take_over(Session& session) override;
  void count_drop(DropReason reason) override { ++counters_.drops[static_cast<size_t>(reason)]; }
  void count_retransmit() override { ++counters_.retransmits; }
  void count_copied(size_t bytes) override { counters_.rx_copied_bytes += bytes; }

  // RxPlacer.
  Placement place(PeerId from, ByteSpan header, size_t payload_bytes) override;
  void abandon(uint64_t cookie) override;

  // PeerUse.
  [[nodiscard]] bool is_used(PeerId peer) const override { return sessions_.is_used(peer); }

  // endpoint.cc
  size_t receive() { return transport_.rx_burst(std::span(received_).first(receive_max_)); }
  size_t turn(size_t received);
  [[nodiscard]] bool nothing_to_do() const;
  void sleep(DurationNs max_wait_ns);
  size_t run_mailbox();
  [[nodiscard]] bool has_due_timer() const {
    return now_ns_ >= std::min({timers_.next(), task_due_ns_, next_rehearsal_ns_});
  }
  void run_timers();
  void tell_burst_end() {
    has_gathered_ = false;
    if (burst_end_observer_) burst_end_observer_();
  }

  // endpoint_calls.cc
  Call& take_call();
  [[nodiscard]] size_t calls_in_flight() const {
    return calls_.size() - free_calls_.size() - completing_count_ + bundles_.calls().in_flight() - small_records_;
  }
  size_t run_completions();
  void refuse(Session& session, const ArrivedRequest& request, absl::StatusCode code, const std::string& text);

  // endpoint_rehearsal.cc
  void serve_rehearsals();
  void rehearse();

  // endpoint_packets.cc
  [[gnu::noinline]] bool copy_out(const Arrival& arrival, Lease& lease);
  void dispatch(std::span<RxPacket> packets);
  void dispatch(RxPacket& packet);
  [[nodiscard]] size_t take_pieces(std::span<RxPacket> packets);
  [[nodiscard]] bool is_unsealed(const RxPacket& packet, const PacketHeader& header, const SessionEntry* entry) const;
  void dispatch_aside(const Arrival& arrival, PeerId from);
  void tell_unknown(const PacketHeader& header, PeerId from);
  [[nodiscard]] static bool is_lost_peer(const SessionEntry& entry, PeerId from);
  void dispatch_control(const Arrival& arrival, PeerId from);
  void discard_current();
  void send_control(PeerId peer, const PacketHeader& header, ByteSpan payload);
  [[nodiscard]] bool has_to_transmit() const {
    return !bundles_.nothing_written() || !ready_.empty() || !stage_.nothing_staged() || !parked_.empty() ||
           !offers_due_.empty();
  }
  size_t transmit();
  void send_offers();
  void release_buffer(RxBufferId buffer) {
    to_release_[to_release_count_++] = buffer;
    if (to_release_count_ == to_release_.size()) flush_releases();
  }
  void flush_releases();

  // endpoint_reads.cc
  size_t run_reads();
  void on_one_sided(const OneSidedCompletion& completion);
  void on_fetched(ReadPulls::Finished&& finished);
  void end_reads();

  // endpoint_memory.cc
  bool try_to_post(Operation& operation);
  size_t run_waiting_access();
  /// False: the completion is not of such an operation.
  bool on_access_completion(const OneSidedCompletion& completion);
  void run_task();
  [[nodiscard]] TimeNs next_access_ns() const;

  // endpoint_sessions.cc
  /// For generations and nonces, which nobody may guess, not even from earlier ones.
  [[nodiscard]] uint64_t secret();
  /// Gives a new entry its session.
  void make_session(SessionEntry& entry);
  absl::StatusOr<SessionEntry*> dial(const Descriptor& peer, SessionEntry::State state);
  [[nodiscard]] SessionTerms own_terms() const;
  [[nodiscard]] SessionTerms common_terms(const SessionTerms& offered) const;
  [[nodiscard]] uint8_t version_max() const;
  std::string make_offer(SessionEntry& entry);
  SessionAnswer judge_offer(const SessionOffer& offer, PeerId from, uint64_t source, SessionEntry** accepted);
  [[nodiscard]] bool is_bound_elsewhere(const SessionOffer& offer, PeerId from) const;
  /// Why an offer of `from` is not taken, or is; ends the session that it replaces.
  absl::Status make_way(PeerId from, const EndpointIdentity& identity, uint32_t remote_index,
                        uint32_t remote_generation);
  /// False: the session has ended.
  bool bind(SessionEntry& entry, PeerId from);
  /// The same for a session that may have lost its connection before.
  bool bind_again(SessionEntry& entry, PeerId from);
  void unbind(SessionEntry& entry);
  void resume(SessionEntry& entry);
  void limit_unproven();
  absl::Status on_answer(SessionEntry& entry, const SessionAnswer& answer);
  void open_session(SessionEntry& entry, const SessionTerms& terms);

  // endpoint_session_ends.cc
  void break_session(SessionEntry& entry, const absl::Status& why);
  void doom(SessionEntry& entry, const absl::Status& why);
  void bury_doomed();
  void on_unknown_session(const Arrival& arrival, PeerId from);
  size_t handle_links();
  /// Rare, and not in the way of turns that have none.
  [[gnu::noinline]] void on_link(const LinkEvent& event);
  void on_link(SessionEntry& entry, const LinkEvent& event);
  void on_link_down(SessionEntry& entry, const absl::Status& why);
  void on_link_up(SessionEntry& entry, const EndpointIdentity& who);
  void run_entry_timer(SessionEntry& entry);
  TimeNs run_connecting_timer(SessionEntry& entry);
  TimeNs run_open_timer(SessionEntry& entry);
  void notify(const SessionEntry& entry, SessionEvent::Kind kind, const absl::Status& why);

  // Calls.
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<uint32_t> free_calls_;
  /// So many small calls are within calls_max, whatever the records of large ones are doing.
  uint32_t small_calls_max_ = options_.calls_max;
  IntrusiveList<Call, &Call::hook> completed_;
  uint32_t completing_count_ = 0;  // calls whose completion runs
  uint32_t small_records_ = 0;     // calls that waited, and are small ones now: counted there as well

  TimeNs next_rehearsal_ns_ = kTimeNever;
  uint64_t calls_at_rehearsal_ = 0;
  uint32_t rehearsed_ = 0;  // the session that was last

  std::vector<HandlerFn> handlers_;
  std::bitset<kMethodMax> takes_one_way_;
  uint32_t handlers_running_ = 0;
  /// Handlers have run since burst_end_observer_ did.
  bool has_gathered_ = false;

  // Memory. Order matters: leases and messages return to what is declared before them.
  ShareLeases answers_{options_.answers_limit_bytes};
  Arena arena_;
  BufferPool buffers_;
  MessagePool messages_;
  TransportLeases transport_leases_{*this};
  PoolLeases pool_leases_{*this};
  size_t lent_count_ = 0;
  const size_t lent_watermark_;
  std::array<RxBufferId, kBurstMax> to_release_;
  size_t to_release_count_ = 0;

  Bundles bundles_{*this, transport_, options_.protocol};

  // Receive: the packet being dispatched.
  RxPacket* current_ = nullptr;
  bool current_kept_ = false;
  std::array<RxPacket, kBurstMax> received_;
  /// How many are taken at a time. Half a burst: its answers leave while the next half arrives. A burst where many
  /// peers send little: it is all that comes together, and looking at the wire has its price.
  size_t receive_max_ = kBurstMax / 2;
  std::array<LinkEvent, 8> link_events_;

  TransmitStage stage_{transport_, counters_};

  // Large messages that their receivers read; null where the transport cannot.
  OneSided* const one_sided_;
  Loans loans_{one_sided_};
  ReadPulls read_pulls_;
  // Operations that others started, and their task.
  IntrusiveList<Operation, &Operation::hook> access_waiting_;
  size_t access_in_flight_ = 0;
  uint64_t notices_reserved_ = 0;
  absl::AnyInvocable<void(PeerId from, uint32_t number)> notice_observer_;
  TimeNs task_due_ns_ = kTimeNever;
  absl::AnyInvocable<void()> task_;

  // Sessions.
  ReceiveBudget receive_budget_{
      std::min<size_t>(options_.protocol.receive_budget_packets, transport_.capabilities().lendable_count / 2),
      options_.protocol.receive_budget_bytes};
  SpinPolicy spin_policy_;
  Rng rng_;
  SessionTable sessions_{options_, [this] { return secret(); }};
  IntrusiveList<Session, &Session::ready_hook> ready_;
  /// Ready, but their peer takes nothing now: one stopped peer must not hold up the others.
  IntrusiveList<Session, &Session::ready_hook> parked_;
  std::vector<uint32_t> offers_due_;
  TimerHeap timers_;
  TimeNs last_work_ns_ = 0;
  bool slept_since_work_ = false;
  uint32_t idle_turns_ = 0;
  bool in_turn_ = false;
  bool shutting_down_ = false;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ENDPOINT_IMPL_H_
