// ConnectionDoor: accepts connections for a gRPC server, and keeps file descriptors for others.
//
//      clients --> [listening sockets] --accept--> door --fd--> gRPC
//                                                   |
//                                                   +--> closed at once: three quarters of the descriptors are in use
//
// gRPC's own listener (1.51) never accepts again once accept(2) has failed for lack of a descriptor: a crowd of
// connections would keep everybody out until a restart, also when the crowd is gone. And it leaves no descriptor for
// files. The kernel gives the lowest free number, so the number of a new connection says how many are in use.
#ifndef SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_
#define SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::control {

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
  void open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside);

 private:
  ConnectionDoor() = default;
  void run();
  /// True: there may be more. False: nobody waits, or no descriptor can be had just now.
  bool take_one(int listener);

  std::vector<int> listeners_;
  int wake_ = -1;
  uint16_t port_ = 0;
  int descriptors_max_ = 0;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside_;
  std::thread thread_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONNECTION_DOOR_H_
