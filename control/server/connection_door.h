// ConnectionDoor: accepts connections for a gRPC server, and keeps file descriptors for others.
//
//      clients --> [listening sockets] --accept--> door --first byte--> gRPC
//                                                   |           |
//                                                   |           +--> closed: it says nothing (silent_connections.h)
//                                                   |
//                                                   +--> closed at once: three quarters of the descriptors are in use,
//                                                        of a door for strangers: half of them; or its network
//                                                        begins too many (arrival_limit.h), or has its share
//                                                        (connection_shares.h)
//
// So whoever crowds at the door for strangers leaves a quarter to the other door, and a quarter to files; and whoever
// crowds from one network leaves half of a door's descriptors to others. A connection that says nothing costs gRPC
// nothing.
//
// The first byte also tells the two insides of a door apart, if it has two: a record of TLS begins with 0x16.
//
// Who is sent away reads nothing that says why. So the log says it, in one line a second at most (line_pace.h).
//
// gRPC's own listener (1.51) never accepts again once accept(2) has failed for lack of a descriptor: a crowd of
// connections would keep everybody out until a restart, also when the crowd is gone. And it leaves no descriptor for
// files. The kernel gives the lowest free number, so the number of a new connection says how many are in use.
#ifndef SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_
#define SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/server/arrival_limit.h"
#include "control/server/connection_shares.h"
#include "control/server/silent_connections.h"
#include "rpc/base/clock.h"
#include "rpc/base/line_pace.h"

namespace skua::control {

/// Who comes through a door. Strangers have no certificate yet.
enum class DoorFor { kMembers, kStrangers };

/// A door lets connections in whose descriptors have numbers below this, of a process that may open `files`. Pure.
[[nodiscard]] int descriptors_for(DoorFor whom, uint64_t files);

/// Takes a line about connections that were sent away. Empty: nobody is told. Thread: the door's.
using DoorLog = std::function<void(const std::string& line)>;

class ConnectionDoor {
 public:
  /// Why nobody can be let in.
  struct Failure {
    int error = 0;     // the system's number
    std::string text;  // of a name that cannot be resolved; empty: `error` says it
  };
  /// Listens on all addresses that `host` stands for; a wildcard of either kind takes both kinds of connections. Port 0
  /// takes a free one. Nobody is let in before open(). Null: `failure` says why.
  static std::unique_ptr<ConnectionDoor> listen(const std::string& host, const std::string& port, Failure& failure);
  /// Nobody is let in any more. Connections that gRPC has got stay.
  ~ConnectionDoor();
  ConnectionDoor(const ConnectionDoor&) = delete;
  ConnectionDoor& operator=(const ConnectionDoor&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

  /// Lets connections in, on a thread of its own, once the server that `inside` belongs to has started.
  /// `without_tls`: for connections that do not begin with TLS; null: all go to `inside`. Call it once.
  void open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside,
            std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> without_tls = nullptr,
            DoorFor whom = DoorFor::kMembers, DoorLog log = {});

 private:
  ConnectionDoor() = default;
  void run();
  /// How long to sleep, in milliseconds; -1: until something happens.
  [[nodiscard]] int sleep_ms() const;
  /// Takes those who wait, up to a number. False: no descriptor can be had just now.
  bool take_some(int listener);
  void receive(int fd, int listener, const Network& from);
  /// Why a new connection cannot stay; null: it can.
  const char* why_not(int fd, const Network& from, TimeNs now);
  /// Something came from a silent connection, or it has ended.
  void hear(int fd);
  /// `first` is the first byte of a connection, which gRPC owns from now on.
  void hand_over(char first, int listener, int fd);
  void send_away(int fd, const Network& from, const char* why);
  void tell(std::optional<uint64_t> count);

  std::vector<int> listeners_;
  int wake_ = -1;
  int epoll_ = -1;
  uint16_t port_ = 0;
  int descriptors_max_ = 0;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> without_tls_;
  DoorLog log_;
  const SteadyClock clock_{};
  // The thread's from here on.
  ArrivalLimit arrivals_;
  std::optional<ConnectionShares> shares_;
  std::optional<SilentConnections> silent_;
  LinePace sent_away_;
  Network sent_away_from_{};  // the latest one's
  const char* sent_away_why_ = "";
  std::thread thread_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_
