// ConnectionDoor: accepts connections for a gRPC server, and keeps file descriptors for others.
//
//      clients --> [listening sockets] --accept--> door --fd--> gRPC
//                                                   |
//                                                   +--> closed at once: three quarters of the descriptors are in use,
//                                                        of a door for strangers: half of them; or its network
//                                                        begins too many (arrival_limit.h)
//
// So whoever crowds at the door for strangers leaves a quarter to the other door, and a quarter to files.
//
// A door with two insides (TLS, and without) waits for the first byte of a connection, which tells them apart: a record
// of TLS begins with 0x16. Who says nothing for kFirstByteMs is closed; at most kHesitantMax may hesitate, then the
// oldest is closed.
//
// gRPC's own listener (1.51) never accepts again once accept(2) has failed for lack of a descriptor: a crowd of
// connections would keep everybody out until a restart, also when the crowd is gone. And it leaves no descriptor for
// files. The kernel gives the lowest free number, so the number of a new connection says how many are in use.
#ifndef SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_
#define SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/server/arrival_limit.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Who comes through a door. Strangers have no certificate yet.
enum class DoorFor { kMembers, kStrangers };

/// A door lets connections in whose descriptors have numbers below this, of a process that may open `files`. Pure.
[[nodiscard]] int descriptors_for(DoorFor whom, uint64_t files);

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
  /// `without_tls`: for connections that do not begin with TLS; null: all go to `inside`.
  void open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside,
            std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> without_tls = nullptr,
            DoorFor whom = DoorFor::kMembers);

 private:
  ConnectionDoor() = default;
  void run();
  /// True: there may be more. False: nobody waits, or no descriptor can be had just now.
  bool take_one(int listener);
  /// Gives a connection to gRPC, which owns it from then on.
  static void hand_over(grpc::experimental::ExternalConnectionAcceptor& to, int listener, int fd);
  /// Those whose first byte has come go in, those whose time is up go away.
  void sort_hesitant();

  /// A connection whose first byte has not come.
  struct Hesitant {
    int listener = -1;
    int fd = -1;
    TimeNs until_ns = 0;
  };

  std::vector<int> listeners_;
  int wake_ = -1;
  uint16_t port_ = 0;
  int descriptors_max_ = 0;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> without_tls_;
  const SteadyClock clock_{};
  ArrivalLimit arrivals_;          // the thread's
  std::deque<Hesitant> hesitant_;  // oldest first; the thread's
  std::thread thread_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_
