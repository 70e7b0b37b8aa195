// Links: sockets, epoll and handshakes. Everything that happens to connections, except cutting their bytes into
// packets.
//
// epoll is edge-triggered and each socket is registered once, so the steady state makes no epoll_ctl calls. A
// connection remembers what an edge reported (readable, tx_blocked) until it was acted upon. rx_burst reads the
// connections on the `active` list: the readable ones, and a connection that has had all the traffic lately (see
// tcp_limits.h). That one is read without asking epoll first, so a ping-pong costs one recv.
//
// Connections are closed only by turn() and abandon_tx(), never while packets are received or sent: fail() notes the
// reason, and the next turn() closes the connection.
#ifndef SKUA_RPC_TRANSPORT_TCP_LINKS_H_
#define SKUA_RPC_TRANSPORT_TCP_LINKS_H_

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "rpc/base/line_pace.h"
#include "rpc/transport/tcp/connection.h"
#include "rpc/transport/tcp/peers.h"
#include "rpc/transport/tcp/socket_notes.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::rpc::tcp {

/// Thread: the transport's, except wake(). Everything in Environment must outlive the Links.
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

  /// Creates the file descriptors and listens. Errors: as TcpTransport::create.
  absl::Status open();
  /// The address for this endpoint's descriptor.
  [[nodiscard]] const SocketAddress& address() const { return address_; }

  /// `peer.tx` has something: writes it, or dials, or waits for the back-off, or drops it with a LinkEvent.
  void send(Peer& peer);
  /// Makes a connection to `peer` as send() does. If that fails, a kDown or kRefused event reports it.
  void connect(Peer& peer);
  /// Writes `pieces`, which are whole frames, to `peer`, which has a connection. Bytes that the socket does not take
  /// are copied into peer.tx, where room is reserved for them. Returns how many bytes were copied.
  size_t write_frames(Peer& peer, std::span<iovec> pieces);

  /// True if a burst should ask epoll before it reads.
  [[nodiscard]] bool turn_due();
  /// Asks epoll without waiting: accepts, handshakes, writes what was blocked, runs timers, closes connections.
  void turn();

  [[nodiscard]] std::vector<Connection*>& active() { return active_; }
  /// Nothing more is read from the connection; the next turn() closes it, and tells why.
  void fail(Connection& connection, absl::Status why);
  /// Call after each read. `produced`: the read brought packets.
  void after_read(Connection& connection, RxOutcome outcome, bool produced);
  /// Takes connections that have been quiet off the active list.
  void sweep_active();
  /// Moves half-received bytes of all connections out of the chunks.
  void spill_all();
  void cancel_placements(RxPlacer* placer);
  /// Tells asking peers how many of their packets the engine has, unless a frame has told it since the last burst.
  void tell_owed();
  [[nodiscard]] bool owes() const { return !owing_.empty(); }
  /// Says whether a session uses an incoming connection. Not owned. Null: every incoming connection counts as used.
  void set_peer_use(const PeerUse* use) { peer_use_ = use; }
  /// Forgets all packets that wait to be written. Closes connections with queued packets, because a connection that
  /// ends in the middle of a packet cannot go on.
  void abandon_tx();

  // As in Transport.
  void wait(DurationNs timeout_ns);
  void wake();
  [[nodiscard]] int wait_fd() const { return epoll_.get(); }
  [[nodiscard]] DurationNs begin_wait(DurationNs timeout_ns);
  void end_wait();

  [[nodiscard]] TcpTransport::Stats stats() const;

 private:
  // Connections and events.
  Connection* add_connection(UniqueFd fd, bool outgoing, const SocketAddress& remote);
  void activate(Connection& connection);
  void deactivate(Connection& connection);
  void close(Connection& connection, LinkEvent::Kind kind, const absl::Status& why);
  void close_quietly(Connection& connection);
  void handle(const epoll_event& event);
  [[nodiscard]] bool is_idle_event(const epoll_event& event) const;
  [[nodiscard]] bool is_hot(const Connection& connection) const;
  Connection* find(uint64_t event_data) const;
  int wait_epoll(DurationNs timeout_ns);
  void take_events(DurationNs timeout_ns);
  void stop_sleeping();

  // Handshakes.
  /// Not while a pause is on.
  void accept_some();
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
  /// A connection from `from` is closed, or refused, for want of room. `why` lives for ever.
  void note_sent_away(const SocketAddress& from, const char* why);
  void tell_sent_away(std::optional<uint64_t> count) const;
  void check_half_frames(TimeNs now);
  [[nodiscard]] bool is_crowded() const { return caller_count_ >= env_.options->callers_max / 2; }
  void end_unused_callers(TimeNs now);

  // Writing and time.
  void flush(Peer& peer);
  void block(Connection& connection);

  // Memory that the kernel reads (notices.cc).
  /// A connection that ended while the kernel may still read its packets' memory. It is kept until the kernel is done
  /// or until a deadline.
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
           caller_count_ > 0 || !graves_.empty() || sent_away_.due_ns() != kTimeNever;
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
  /// Number of standing incoming connections per remote IP address.
  absl::flat_hash_map<std::array<uint8_t, 16>, uint32_t> callers_;
  uint32_t caller_count_ = 0;
  const PeerUse* peer_use_ = nullptr;
  TimeNs unused_check_ns_ = 0;
  /// Connections that are dialling or wait for a hello; oldest first.
  std::vector<Connection*> handshakes_;
  /// Peers to be dialled when their back-off is over.
  std::vector<Peer*> waiting_;
  TimeNs accept_again_ns_ = kTimeNever;
  /// A connection may have an unfinished frame; checked from time to time.
  bool some_are_half_ = false;
  TimeNs half_check_ns_ = 0;    // when check_half_frames() is due
  TimeNs half_checked_ns_ = 0;  // when it last ran
  uint64_t dial_number_ = 0;
  LinePace sent_away_;
  /// Of the latest one.
  SocketAddress sent_away_from_;
  const char* sent_away_why_ = "";

  std::array<epoll_event, kEpollEventsMax> events_;
  /// Events that wait() or end_wait() took from epoll and nobody has handled yet.
  int events_pending_ = 0;
  uint32_t bursts_since_turn_ = 0;
  /// Generation of the connection that brought the latest packets, and how many times in a row it did so.
  uint32_t last_producer_ = 0;
  uint32_t producer_streak_ = 0;
  size_t blocked_count_ = 0;

  std::atomic<bool> woken_{false};
  std::atomic<bool> sleeping_{false};
  TcpTransport::Stats stats_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_LINKS_H_
