// Links: sockets, epoll and handshakes: everything that happens to connections except moving
// packets.
//
// epoll is edge-triggered and each socket is registered once, so the steady state makes no
// epoll_ctl calls. What an edge said is remembered in the connection (readable, tx_blocked) until
// acted upon. The `active` list holds the connections that rx_burst reads: those that are readable,
// and one that has had all the traffic lately (see tcp_limits.h), which is read without asking epoll
// first, so that a ping-pong costs one recv.
//
// Connections are only closed from turn() and from dialling, never while a burst is being received
// or sent: fail() notes the reason, turn() does it.
#ifndef SKUA_RPC_TRANSPORT_TCP_LINKS_H_
#define SKUA_RPC_TRANSPORT_TCP_LINKS_H_

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "rpc/transport/tcp/connection.h"
#include "rpc/transport/tcp/peers.h"
#include "rpc/transport/tcp/socket_notes.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::rpc::tcp {

/// Thread: the transport's, but for wake(). Everything passed in must outlive it.
class Links {
 public:
  struct Environment {
    const TcpOptions* options = nullptr;
    std::span<const Dialect> dialects;
    VersionRange versions;
    const Clock* clock = nullptr;
    PeerTable* peers = nullptr;
    RxContext* rx = nullptr;
    TxCompletions* completions = nullptr;
  };

  explicit Links(const Environment& environment);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Makes the descriptors and listens. Errors: as TcpTransport::create.
  absl::Status open();
  /// What the descriptor says.
  [[nodiscard]] const SocketAddress& address() const { return address_; }

  /// There is something in peer.tx: writes it, or dials, or waits for the back-off, or drops it
  /// with an event.
  void send(Peer& peer);
  /// Makes a connection to `peer`, as send() would; kDown or kRefused tells that there is none.
  void connect(Peer& peer);
  /// Writes `pieces`, whole frames, to `peer`, which has a connection. What the socket does not take is copied into
  /// peer.tx, where there is room; returns how many bytes that is.
  size_t write_frames(Peer& peer, std::span<iovec> pieces);

  /// True when a burst should look at epoll before it reads.
  [[nodiscard]] bool turn_due();
  /// Looks at epoll without waiting: accepts, handshakes, writes what was blocked, timers, closes.
  void turn();

  [[nodiscard]] std::vector<Connection*>& active() { return active_; }
  /// After a read: `produced` packets, or none.
  void after_read(Connection& connection, RxOutcome outcome, bool produced);
  /// Takes connections that have been quiet off the active list.
  void sweep_active();
  /// Half-received bytes of all connections leave the chunks.
  void spill_all();
  void cancel_placements(RxPlacer* placer);
  /// Tells peers which asked what the engine has, where no frame said it since the last burst.
  void tell_owed();
  [[nodiscard]] bool owes() const { return !owing_.empty(); }
  /// Whom to ask whether a session uses a caller; null: every caller counts as used.
  void set_peer_use(const PeerUse* use) { peer_use_ = use; }
  /// Forgets all packets that wait to be written. A connection with half a packet on the wire cannot go on and is closed.
  void abandon_tx();

  void wait(DurationNs timeout_ns);
  void wake();

  [[nodiscard]] TcpTransport::Stats stats() const;

 private:
  // Connections and events.
  Connection* add_connection(UniqueFd fd, bool outgoing, const SocketAddress& remote);
  void activate(Connection& connection);
  void deactivate(Connection& connection);
  void fail(Connection& connection, absl::Status why);
  void close(Connection& connection, LinkEvent::Kind kind, const absl::Status& why);
  void close_quietly(Connection& connection);
  void handle(const epoll_event& event);
  [[nodiscard]] bool is_idle_event(const epoll_event& event) const;
  [[nodiscard]] bool is_hot(const Connection& connection) const;
  Connection* find(uint64_t event_data) const;
  int wait_epoll(DurationNs timeout_ns);

  // Handshakes.
  void accept_all();
  void dial(Peer& peer);
  void back_off(Peer& peer, TimeNs now);
  void dial_failed(Peer& peer, LinkEvent::Kind kind, const absl::Status& why);
  void on_connecting(Connection& connection, uint32_t events);
  void on_hello_bytes(Connection& connection);
  void on_hello(Connection& connection, const Hello& hello);
  void on_reply(Connection& connection, const HelloReply& reply);
  void on_refusal(Connection& connection, const HelloReply& reply);
  bool send_reply(Connection& connection, HelloReply reply);
  void drop_malformed(Connection& connection);
  void establish(Connection& connection, Peer& peer, uint16_t version);
  void evict_handshake();
  void check_half_frames(TimeNs now);
  [[nodiscard]] bool is_crowded() const { return caller_count_ >= env_.options->callers_max / 2; }
  void end_unused_callers(TimeNs now);

  // Writing and time.
  void flush(Peer& peer);
  void block(Connection& connection);

  // Memory that the kernel reads (notices.cc).
  /// A connection that ended, until the kernel is done with what it was given, or a time has passed.
  struct Grave {
    UniqueFd fd;
    ZeroCopySends sends;
    TimeNs until_ns = 0;
  };
  void start_zero_copy(Connection& connection, const Peer& peer);
  bool read_notes(Connection& connection);
  void take_notices(Connection& connection);
  void bury(Connection& connection);
  [[nodiscard]] bool visit(Grave& grave);
  void visit_graves();
  void abandon_zero_copy();

  void fail_write(Connection& connection, int error);
  void run_timers();
  [[nodiscard]] TimeNs next_timer_ns() const;
  [[nodiscard]] bool has_timers() const {
    return !handshakes_.empty() || !waiting_.empty() || accept_again_ns_ != kTimeNever || some_are_half_ ||
           caller_count_ > 0 || !graves_.empty();
  }
  [[nodiscard]] std::string name_of(const Peer& peer) const;

  const Environment env_;
  SocketAddress address_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd wake_fd_;

  std::vector<std::unique_ptr<Connection>> slots_;
  std::vector<uint32_t> free_slots_;
  uint32_t next_generation_ = 1;
  size_t link_count_ = 0;

  std::vector<Connection*> active_;
  std::vector<Connection*> failed_;
  std::vector<Connection*> owing_;
  std::vector<Grave> graves_;
  /// Connections that stand and were dialled from there, by address.
  absl::flat_hash_map<std::array<uint8_t, 16>, uint32_t> callers_;
  uint32_t caller_count_ = 0;
  const PeerUse* peer_use_ = nullptr;
  TimeNs unused_check_ns_ = 0;
  /// Dialling or waiting for a hello; oldest first.
  std::vector<Connection*> handshakes_;
  /// Peers with packets queued until their back-off is over.
  std::vector<Peer*> waiting_;
  TimeNs accept_again_ns_ = kTimeNever;
  /// A connection may be in the middle of a frame: looked into now and then.
  bool some_are_half_ = false;
  TimeNs half_check_ns_ = 0;
  uint64_t dial_number_ = 0;

  std::array<epoll_event, kEpollEventsMax> events_;
  /// Taken from epoll by wait() and not yet handled.
  int events_pending_ = 0;
  uint32_t bursts_since_turn_ = 0;
  /// The connection that packets came from last, by its generation, and how many bursts in a row had none from others.
  uint32_t last_producer_ = 0;
  uint32_t producer_streak_ = 0;
  size_t blocked_count_ = 0;

  std::atomic<bool> woken_{false};
  std::atomic<bool> sleeping_{false};
  TcpTransport::Stats stats_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_LINKS_H_
