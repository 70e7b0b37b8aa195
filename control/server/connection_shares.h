// ConnectionShares: no network has more than half of the descriptors that a door gives away.
//
// gRPC owns a connection once it is inside, and tells nobody of its end. So each entry has the number of its socket,
// which the kernel gives once: if the descriptor stands for another socket now, or for none, the connection has ended.
// That is looked at when a network seems to have its share, once in kRecountNs. Entries of connections that have ended
// go when their descriptor is used again, or in a recount: there are never more than descriptors.
//
// Pure: time is an argument, and what a descriptor stands for is asked of a function.
#ifndef SKUA_CONTROL_SERVER_CONNECTION_SHARES_H_
#define SKUA_CONTROL_SERVER_CONNECTION_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "control/server/arrival_limit.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Thread: one at a time.
class ConnectionShares {
 public:
  /// The number of the socket that descriptor `fd` stands for; 0: it stands for none.
  using SocketOf = std::function<uint64_t(int fd)>;

  /// Of a door that may have `descriptors_max` descriptors.
  ConnectionShares(int descriptors_max, SocketOf socket_of)
      : share_(static_cast<size_t>(descriptors_max) / 2), socket_of_(std::move(socket_of)) {}

  /// A new connection. False: its network has its share, and the connection is not counted.
  bool admit(int fd, const Network& from, TimeNs now);

  [[nodiscard]] size_t share() const { return share_; }

 private:
  static constexpr DurationNs kRecountNs = kSecond;

  struct Entry {
    uint64_t socket = 0;
    Network from{};
  };

  void forget(const Network& from);
  void recount(const Network& from);

  const size_t share_;
  const SocketOf socket_of_;
  std::unordered_map<int, Entry> entries_;  // by descriptor
  std::map<Network, size_t> counts_;
  TimeNs recount_again_ns_ = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONNECTION_SHARES_H_
