// RcConnections: an endpoint's operations on peers' memory, over connected queue pairs (RC).
//
// There are at most two ways to each peer (Way). First: a connection of this endpoint's own, one per peer, made by
// rc_handshake.h, for remote memory. Second: a share of the queue pair between the two processes (rc_hub.h), for large
// messages, which are announced and READ. Messages use the first way if the peer is in the same process or does not
// know sharing.
//
//    ready(peer) -> resolve the address again, on the resolver's thread (it may have moved) -> RcHandshake -> RcQueue
//    post(operations) -> slot per operation -> RcQueue of the peer ---+
//    reap() <----------- one completion queue for all of them <-------+
//
// The id of a work request contains its slot and the slot's epoch. The epoch counts the uses of the slot, so a
// completion of an earlier use is ignored, even if its queue pair is gone. Any error ends a connection (the device
// gives up the queue pair) and all its operations. A datagram tells the peer, and the next ready() on either side makes
// a new connection. The datagrams' queue pair and the sessions are not affected.
//
// A connection's number is computed from the generations of both ends (rc_handshake.h): each end draws a generation for
// every queue pair, and knows the other end's generation once it is bound to that end.
//
// Notices (WRITE with immediate data) each consume one posted receive request, which has no memory. A connection posts
// as many requests as were reserved for its peer, and posts a new one when a notice was reaped. So no peer can have
// more notices waiting here than were reserved. The id of such a request contains the peer and the connection's serial
// number.
//
// Memory. A region is registered for connected queue pairs when it is first used that way (device.h). Apart from opened
// regions, peers reach memory only through windows (rc_memory.cc): each loan is a memory window of type 2.
//
//    free --lend(): BIND_MW--> lending --> lent --take_back(): LOCAL_INV--> ending --> free
//                                 \---------- \-- its connection ended: dead -----------/
//
// The device lets the peer READ exactly the window's bytes, only over the queue pair that bound the window, and only
// under the window's current key.
#ifndef SKUA_RPC_TRANSPORT_VERBS_RC_CONNECTIONS_H_
#define SKUA_RPC_TRANSPORT_VERBS_RC_CONNECTIONS_H_

#include <infiniband/verbs.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/transport/one_sided.h"
#include "rpc/transport/verbs/address_resolver.h"
#include "rpc/transport/verbs/completion_channel.h"
#include "rpc/transport/verbs/memory_registry.h"
#include "rpc/transport/verbs/rc_handshake.h"
#include "rpc/transport/verbs/rc_hub.h"
#include "rpc/transport/verbs/rc_join.h"
#include "rpc/transport/verbs/rc_pair.h"
#include "rpc/transport/verbs/rc_queue.h"
#include "rpc/transport/verbs/read_progress.h"

namespace skua::rpc::verbs {

/// What RcConnections needs of its transport.
class RcHost {
 public:
  virtual ~RcHost() = default;
  [[nodiscard]] virtual const EndpointAddress& own_address() const = 0;
  [[nodiscard]] virtual const EndpointAddress& address_of(PeerId peer) const = 0;
  /// Sends a datagram of the transport itself; it may be lost.
  virtual void send_own(PeerId peer, ByteSpan datagram) = 0;
  [[nodiscard]] virtual const RegionTable& regions() const = 0;
  /// Ends the transport's sleep. Thread: any.
  virtual void wake() = 0;
};

/// Thread: the transport's.
class RcConnections final : public OneSided {
 public:
  struct Stats {
    uint64_t connected = 0;
    /// Connections that an error ended, here or at the peer.
    uint64_t broken = 0;
    uint64_t severed = 0;
    /// Of the broken connections: those whose READs made no progress (read_progress.h).
    uint64_t stalled = 0;
    uint64_t operations_failed = 0;
    /// Datagrams to the transport itself that were malformed or came from an unknown sender.
    uint64_t bad_messages = 0;
  };

  /// The most memory windows of an endpoint. One peer may have a quarter of them, because it may never say that it has
  /// finished with a loan.
  static constexpr size_t kWindowsMax = 1024;
  static constexpr size_t kWindowsPerPeerMax = kWindowsMax / 4;

  /// `host`, `device`, `resolver`, `channel` and `hub` must outlive it. `hub` is null if pairs are not shared.
  /// UNIMPLEMENTED: the device has no READs.
  static absl::StatusOr<std::unique_ptr<RcConnections>> create(RcHost& host, Device& device, AddressResolver& resolver,
                                                               CompletionChannel& channel, RcHub* hub, Rng rng);
  ~RcConnections() override;

  // OneSided.
  uint64_t connection(PeerId peer) override;
  bool ready(PeerId peer) override;
  std::optional<Loan> lend(PeerId peer, ByteSpan bytes, uint64_t cookie) override;
  void take_back(uint64_t loan) override;
  absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) override;
  void close_region(uint32_t key) override;
  bool reserve_notices(PeerId peer, uint32_t count) override;
  void release_notices(PeerId peer, uint32_t count) override;
  bool usable(ByteSpan bytes) override { return host_.regions().find(bytes) != nullptr; }
  size_t post(std::span<const OneSidedOperation> operations) override;
  size_t reap(std::span<OneSidedCompletion> completions) override;
  void sever(PeerId peer) override;

  void on_datagram(PeerId from, ByteSpan datagram, TimeNs now);
  /// Runs the handshakes that are due.
  void run_timers(TimeNs now);
  /// When to call run_timers() next; kTimeNever: no timer is set.
  [[nodiscard]] TimeNs next_timer_ns() const;
  /// Looks for READs without progress, and for queue pairs in error. A queue pair that this side does not use reports
  /// no error by itself, but its peer uses it.
  void watch();
  /// From now on the PeerId stands for another endpoint or address: ends both ways to the old one.
  void forget(PeerId peer);
  /// The region is about to be unregistered.
  void forget(MutableByteSpan region);
  /// Posts new room for notices that were reaped. Called once per turn, so that one peer's notices cannot keep a turn
  /// going for ever.
  void renew_notice_room() {
    if (!to_renew_.empty()) renew_all();
  }
  /// Takes what other threads put into the inbox, and ends connections that are found broken.
  void look_into_inbox() {
    if (!inbox_.has_mail()) return;
    take_mail();
    end_broken();
  }
  /// Between begin_sleep() and end_sleep(), other threads wake this thread if they have something for it.
  void begin_sleep();
  void end_sleep() { inbox_.set_sleeping(false); }
  /// A file descriptor to sleep on besides the channel (-1: none). Call on_sleep_event() when it is readable.
  [[nodiscard]] int sleep_fd() const { return shared_in_flight_ > 0 ? hub_->fd() : -1; }
  void on_sleep_event() { hub_->on_event(); }
  /// Call after the channel was armed and after begin_sleep(). False: there is something to reap, do not sleep.
  bool idle();

  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] size_t operations_in_flight() const { return slots_.size() - free_.size(); }
  /// Queue pairs of this endpoint alone, without shared pairs.
  [[nodiscard]] size_t queue_pairs() const;
  /// Peers whose messages go over the shared pair of both processes.
  [[nodiscard]] size_t shared_ways() const;
  /// Null if pairs are not shared.
  [[nodiscard]] const RcHub* hub() const { return owner_ != 0 ? hub_ : nullptr; }
  void fail_for_test(PeerId peer);

 private:
  static constexpr size_t kSlots = 1024;
  /// In the low 32 bits of a work request's id: the request is room for a peer's notice and has no slot.
  static constexpr uint32_t kNoticeMark = 0x80000000;
  /// The most notices reserved for all peers together.
  static constexpr uint32_t kNoticesMax = 2048;

  /// One way to a peer: twice the PeerId for the own connection, one more for the share.
  using Way = uint32_t;
  static constexpr Way kNoWay = UINT32_MAX;
  static Way own_way(PeerId peer) { return 2 * peer; }
  static Way shared_way(PeerId peer) { return 2 * peer + 1; }
  static bool is_shared(Way way) { return way % 2 == 1; }
  static PeerId peer_of(Way way) { return way / 2; }

  struct Connection {
    /// For an own connection: the handshake of the queue pairs. For a share: the handshake of the two endpoints.
    RcHandshake handshake;
    std::unique_ptr<RcQueue> queue;
    /// For a share: the pair that was joined, and the share's connection number.
    std::shared_ptr<RcPair> pair;
    uint64_t number = 0;
    uint64_t process = 0;  // the peer's process number, by its own word; 0: not known yet
    TimeNs process_since_ns = 0;
    JoinSchedule schedule;
    bool joining = false;
    TimeNs alone_until_ns = 0;  // until then, messages use the own connection
    ReadProgress progress;
    /// Set while the peer's address is being resolved. The handle itself is not used; resolving makes the kernel learn
    /// the neighbour.
    std::shared_ptr<AddressHandle> address;
    TimeNs address_known_ns = 0;
    TimeNs not_before_ns = 0;
    uint32_t in_flight = 0;
    uint32_t windows = 0;  // lent to this peer, or to an earlier endpoint with its PeerId
    uint32_t serial = 0;   // serial number of the queue pair
    uint32_t notices_reserved = 0;
    uint32_t notices_posted = 0;
    uint32_t notices_waiting = 0;  // in done_
    bool renewing = false;         // in to_renew_
    bool ending = false;
    bool failed = false;   // an error happened while it was ending
    bool waiting = false;  // in waiting_
    bool broken = false;   // in broken_
  };
  /// A work request at the device. For a window's request, the cookie is the number of the window. read_bytes: the size
  /// of a READ of a message, else 0.
  struct Slot {
    using Kind = OneSidedCompletion::Kind;
    Kind kind = Kind::kOperation;
    uint64_t cookie = 0;
    Way way = kNoWay;
    uint32_t epoch = 0;
    uint32_t read_bytes = 0;
  };
  struct Window {
    enum class State : uint8_t { kFree, kLending, kLent, kEnding, kDead };
    State state = State::kFree;
    bool end_wanted = false;
    bool posted = false;  // kEnding: the invalidation was posted
    ibv_mw* window = nullptr;
    uint32_t key = 0;
    Way way = kNoWay;
    bool with_pair = false;  // owned by a shared pair, until let_go(), close() or the pair's end
    uint64_t cookie = 0;
  };
  /// Work requests that are being collected for one peer's queue pair.
  struct Batch {
    // The last operation may need two requests.
    std::array<ibv_send_wr, kBurstMax + 1> requests;
    std::array<ibv_sge, kBurstMax + 1> pieces;
    size_t count = 0;
    Way way = kNoWay;
  };

  RcConnections(RcHost& host, Device& device, AddressResolver& resolver, CompletionChannel& channel, RcHub* hub,
                Rng rng);

  // Connecting.
  Connection& at(Way way);
  [[nodiscard]] Connection* find(Way way) { return way < connections_.size() ? connections_[way].get() : nullptr; }
  bool find_address(Way way, Connection& connection, TimeNs now);
  void start(PeerId peer, Connection& connection, TimeNs now);
  bool make_queue(Connection& connection, TimeNs now);
  [[nodiscard]] RcQueue::Remote place_of(PeerId peer) const;
  bool bind(PeerId peer, Connection& connection, const ConnectMessage& message, TimeNs now);
  void on_connect(PeerId from, ByteSpan datagram, TimeNs now);
  void keep_waiting(Way way, Connection& connection);
  void run_timer(Way way, Connection& connection, TimeNs now);
  [[nodiscard]] static bool is_waiting(Way way, const Connection& connection);
  void send(PeerId peer, const Connection& connection, bool closed = false);
  /// Destroys the queue pair or leaves the shared one, and completes all its operations.
  void end(Way way, Connection& connection);
  void mark_broken(Way way);
  void give_up_stalled(TimeNs now);
  void end_broken();
  void sever_way(Way way);
  void forget_way(Way way);

  // Sharing (rc_shared.cc).
  [[nodiscard]] static uint64_t shared_number(const Connection& connection) {
    const bool stands = connection.pair != nullptr && !connection.broken && !connection.pair->is_over();
    return stands ? connection.number : 0;
  }
  void ask_to_join(PeerId peer, Connection& connection, TimeNs now);
  bool join_if_ready(PeerId peer, Connection& connection, TimeNs now);
  void run_join_timer(PeerId peer, Connection& connection, TimeNs now);
  void on_join(PeerId from, ByteSpan datagram, TimeNs now);
  bool hear_process(PeerId from, Connection& connection, const JoinMessage& message, TimeNs now);
  void say(PeerId peer, const Connection& connection, TimeNs now);
  void say_closed(PeerId peer, const Connection& connection, const std::optional<ConnectMessage>& pair);
  void leave(Way way, Connection& connection);
  void close_shared_windows(Way way, const Connection& connection, bool all);
  void take_mail();

  // Operating (rc_operations.cc).
  [[nodiscard]] Way way_of(const OneSidedOperation& operation);
  bool add(Batch& batch, Way way, const OneSidedOperation& operation, uint32_t local_key, uint32_t entry_key);
  static ibv_send_wr& add_request(Batch& batch, ByteSpan bytes, uint32_t local_key);
  void post_notice_room(PeerId peer, Connection& connection);
  void on_notice(const ibv_wc& completion);
  void renew_all();
  void flush(Batch& batch);
  static bool post_to(Connection& connection, ibv_send_wr* first) {
    return connection.pair != nullptr ? connection.pair->post(first) : connection.queue->post(first);
  }
  size_t poll(bool must = false);
  void on_completion(const ibv_wc& completion);
  void free_slot(uint32_t index, bool ok);
  void free_slots_of(Way way, const Connection& connection);
  [[nodiscard]] size_t done_count() const { return done_.size() - done_at_; }
  [[nodiscard]] bool has_room(Way way, const Connection& connection) const {
    if (free_.empty()) return false;
    if (!is_shared(way)) return connection.in_flight < RcQueue::kDepth;
    return connection.in_flight < RcPair::kUserDepth && shared_in_flight_ < RcHub::kOwnerDepth;
  }
  uint32_t take_slot(Way way, Slot::Kind kind, uint64_t cookie);
  [[nodiscard]] uint64_t request_id(uint32_t slot) const {
    return uint64_t{slots_[slot].epoch} << 32 | uint64_t{owner_} << RcHub::kOwnerShift | slot;
  }
  /// The region that contains [bytes], registered for connected queue pairs; null: there is none.
  const RegionTable::Region* local_region(ByteSpan bytes);

  // Windows (rc_memory.cc).
  [[nodiscard]] std::optional<uint32_t> take_window();
  void bind(uint32_t number, const RegionTable::Region& region, ByteSpan bytes);
  void on_window_done(Slot::Kind kind, uint32_t number, bool ok);
  void invalidate(uint32_t number);
  void invalidate_waiting();
  void close_windows(Way way);
  void end_windows(Way way);
  void finish_window(uint32_t number);

  RcHost& host_;
  Device& device_;
  AddressResolver& resolver_;
  CompletionChannel& channel_;
  Rng rng_;
  const SteadyClock clock_;
  ibv_cq* completions_ = nullptr;

  RcHub* const hub_;
  RcInbox inbox_;
  uint32_t owner_ = 0;  // the hub's number for this endpoint; 0: nothing is shared
  std::vector<ibv_wc> mail_;
  uint32_t shared_in_flight_ = 0;

  std::vector<std::unique_ptr<Connection>> connections_;  // by Way
  std::vector<Way> waiting_;                              // ways with a handshake or an address in progress
  std::vector<Way> broken_;
  size_t watch_next_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<OneSidedCompletion> done_;  // valid from done_at_ on
  size_t done_at_ = 0;
  RegionTable local_;
  std::map<uint32_t, Registration> open_;  // by key
  std::vector<Window> windows_;
  std::vector<uint32_t> free_windows_;
  std::vector<uint32_t> to_invalidate_;  // wait for room in the queue
  uint32_t reads_in_flight_ = 0;         // only READs of messages
  uint32_t notices_reserved_ = 0;
  uint32_t last_serial_ = 0;
  std::vector<PeerId> to_renew_;
  TimeNs register_again_ns_ = 0;
  Stats stats_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_RC_CONNECTIONS_H_
