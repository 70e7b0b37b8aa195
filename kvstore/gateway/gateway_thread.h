// GatewayThread: a thread's share of the gateway: listeners, their connections, and a client of the cluster. Threads
// have nothing in common but counters and the cursors of SCAN; a connection stays with its thread.
//
//   turn:  sleep in epoll: on the client, the listeners, the connections, stop(), and the host (hosted_loop.h)
//          connections that are readable --> commands --> requests; that are writable --> replies
//          steps of TLS handshakes, for a bounded time (fair_queue.h)
//          client.poll() --> results --> connections --> replies and further requests
//
// The turns have a thread of their own, or that of a node's worker. So a turn is short: events, results and
// connections with replies have kShareNs each. What is left over comes first in the next turn, which does not sleep.
// What is begun goes on to its end: a page of KEYS takes some milliseconds, a large EXEC up to a tenth of a second.
//
// Where clients speak TLS or have users, a connection goes through more states: client_security.h.
//
// A connection is read while it wants input and no earlier input is left over. It is watched for writing only while the
// kernel takes no more.
#ifndef SKUA_KVSTORE_GATEWAY_GATEWAY_THREAD_H_
#define SKUA_KVSTORE_GATEWAY_GATEWAY_THREAD_H_

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/client/async_client.h"
#include "kvstore/gateway/client_connection.h"
#include "kvstore/gateway/client_protocol.h"
#include "kvstore/gateway/client_security.h"
#include "kvstore/gateway/connection_deadlines.h"
#include "kvstore/gateway/entrances.h"
#include "kvstore/gateway/fair_queue.h"
#include "kvstore/gateway/gateway_context.h"
#include "kvstore/gateway/gateway_sockets.h"
#include "kvstore/gateway/password_checker.h"
#include "kvstore/gateway/store_client.h"
#include "kvstore/gateway/tls_stream.h"
#include "rpc/base/clock.h"
#include "rpc/base/hosted_loop.h"

namespace skua::kv::gateway {

/// How long a client may take to agree upon TLS.
inline constexpr int64_t kHandshakeMs = 5000;

/// Microseconds since 1970.
[[nodiscard]] inline int64_t time_of_day_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

[[nodiscard]] inline int64_t monotonic_ms() {
  return SteadyClock().now_ns() / kMillisecond;
}

/// In one turn: the time after which no further event is begun. Results and connections have the same time each.
inline constexpr DurationNs kShareNs = kMillisecond;

class TurnShare {
 public:
  void begin() { end_ns_ = SteadyClock().now_ns() + kShareNs; }
  [[nodiscard]] bool is_over() const { return SteadyClock().now_ns() >= end_ns_; }

 private:
  TimeNs end_ns_ = 0;
};

/// Made and destroyed on any thread. stop() may be called on any thread; after that, turns go on until commands that
/// were read are answered, for at most kStopMs, and all connections end.
class GatewayThread final : public HostedLoop {
 public:
  /// `identity` must outlive the object, and so must `passwords`, which is asked if there are users (null: there are
  /// none). Errors: those of AsyncClient::create(); RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<GatewayThread>> create(GatewayIdentity& identity, ClientOptions options,
                                                               std::vector<Entrance> entrances, ClientSecurity security,
                                                               PasswordChecker* passwords);
  ~GatewayThread() override;
  GatewayThread(const GatewayThread&) = delete;
  GatewayThread& operator=(const GatewayThread&) = delete;

  // HostedLoop
  void begin(HostWait* wait) override;
  bool turn() override;
  void stop();
  /// Whether the thread goes through its loop. Waits for it, for `timeout` at most. Thread: any but its own.
  [[nodiscard]] bool answers(std::chrono::nanoseconds timeout);
  /// For connections that come later, and for the rights of all. Thread: any.
  void set_security(ClientSecurity security);

 private:
  struct Connection {
    Connection(GatewayContext& context, OwnedFd fd_arg, uint64_t id_arg, ClientSession session, ClientProtocol protocol)
        : fd(std::move(fd_arg)), id(id_arg), client(context, std::move(session), make_wire_protocol(protocol)) {}
    OwnedFd fd;
    std::unique_ptr<TlsStream> tls;  // null: the client speaks without TLS; destroyed before fd
    const uint64_t id;               // (generation, slot)
    ClientConnection client;
    std::string unread;       // input that the connection did not want yet
    uint32_t events = 0;      // that epoll watches for
    bool is_blocked = false;  // the kernel takes no more output
    bool has_ended = false;   // the client sends no more
    bool is_dirty = false;    // is in dirty_
    bool was_admitted = true;
    bool has_deadline = false;           // is in authentications_
    PasswordChecker::CheckId check = 0;  // of a password, whose verdict has not come; 0: none
    StoreTicket check_ticket;
    bool check_is_last = false;
    int64_t stranger_since_ms = 0;  // if not was_admitted
  };
  struct Slot {
    uint32_t generation = 1;
    std::unique_ptr<Connection> connection;
  };

  /// Came when the results' share of the turn was over, or is the verdict on a password, from the checker's thread.
  /// There are no more than the requests of all connections, which have bounds.
  struct LateResult {
    uint64_t connection;
    StoreTicket ticket;
    StoreResult result;
  };

  GatewayThread(GatewayIdentity& identity, std::unique_ptr<AsyncClient> client, std::vector<Entrance> entrances,
                ClientSecurity security, PasswordChecker* passwords);

  [[nodiscard]] absl::Status watch_own();
  void gather_events();
  [[nodiscard]] bool watches_host();
  [[nodiscard]] int sleep();
  [[nodiscard]] DurationNs longest_sleep() const;
  void handle_events();
  void handle(const epoll_event& event);
  void wake_up();
  void wake();
  void begin_stop();
  [[nodiscard]] bool may_end() const;

  void accept_some(const Entrance& entrance);
  void add_connection(OwnedFd socket, const Entrance& entrance);

  // gateway_admission.cc: until a client is admitted
  [[nodiscard]] bool begin_admission(Connection& connection);
  void note_admission(Connection& connection);
  [[nodiscard]] bool shake_hands(Connection& connection);
  void shake_some_hands();
  void receive_encrypted(Connection& connection);
  void check_password(Connection& connection, const IssuedRequest& issued);
  void put_check_last(Connection& connection);
  void take_password(LateResult&& checked);
  void take_security(ClientSecurity&& security);
  void end_late_connections();

  [[nodiscard]] Connection* find(uint64_t id);
  void take_result(uint64_t id, const StoreTicket& ticket, StoreResult&& result);
  void finish_result(uint64_t id, const StoreTicket& ticket, StoreResult&& result);
  void finish_late_results();
  void work_off_dirty();
  void receive(Connection& connection);
  void feed(Connection& connection, std::string_view bytes);
  void serve(Connection& connection);
  [[nodiscard]] bool write_replies(Connection& connection);
  void watch(Connection& connection);
  void close(Connection& connection);

  GatewayIdentity& identity_;
  GatewayContext context_;
  const OwnedFd epoll_;
  const OwnedFd wake_event_;      // written by stop() and answers()
  HostWait* host_ = nullptr;      // null: the loop has its thread alone
  bool is_host_watched_ = false;  // by epoll
  std::atomic<bool> is_stopped_{false};
  std::mutex mutex_;
  std::condition_variable answered_;
  uint64_t asked_count_ = 0;                    // protected by mutex_
  uint64_t answered_count_ = 0;                 // protected by mutex_
  std::optional<ClientSecurity> new_security_;  // protected by mutex_
  std::vector<LateResult> checked_passwords_;   // protected by mutex_
  std::shared_ptr<const TlsContext> tls_;       // null: clients speak without
  PasswordChecker* const passwords_;
  ConnectionDeadlines handshakes_{kHandshakeMs};
  FairQueue<uint64_t> ready_to_shake_;  // connections whose TLS handshake could go on
  ConnectionDeadlines authentications_{identity_.authentication_timeout.count()};
  Entrances entrances_;
  std::unique_ptr<AsyncClient> client_;
  StoreClient store_;

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  size_t connection_count_ = 0;
  std::vector<uint64_t> dirty_;
  std::vector<uint64_t> dirty_now_;
  size_t next_dirty_ = 0;  // in dirty_now_
  std::deque<LateResult> late_results_;
  std::vector<IssuedRequest> requests_;
  std::vector<char> read_buffer_;
  std::array<epoll_event, 256> events_;
  size_t event_count_ = 0;
  size_t next_event_ = 0;  // in events_
  TurnShare share_;
  bool defers_results_ = false;  // their share of the turn is over
  int64_t turn_us_ = 0;          // time of day when the turn began, or when the wait in it ended
  int64_t stop_by_ms_ = 0;       // 0: it was not told to stop
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GATEWAY_THREAD_H_
