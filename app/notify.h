// What a program tells its service manager: sd_notify's protocol, in which each message is a datagram to the socket
// that NOTIFY_SOCKET names. Without that variable nobody listens, and nothing is sent.
#ifndef SKUA_APP_NOTIFY_H_
#define SKUA_APP_NOTIFY_H_

#include <string>
#include <string_view>

#include "rpc/base/clock.h"

namespace skua::app {

/// Thread: any. Messages never block, and one that cannot be sent is dropped.
class Notifier {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Call it before threads exist.
  [[nodiscard]] static Notifier from_environment();
  /// `socket`: a path, or a name that begins with @ (an abstract socket); empty: nobody listens. `watchdog_ns`: the
  /// manager ends the program if no alive() comes for so long; 0: it does not.
  explicit Notifier(std::string socket, DurationNs watchdog_ns = 0);

  [[nodiscard]] bool is_heard() const { return !socket_.empty(); }
  [[nodiscard]] DurationNs watchdog_ns() const { return watchdog_ns_; }

  /// The start is complete.
  void ready() const;
  void stopping() const;
  /// For people: one line.
  void status(std::string_view text) const;
  /// The start or the stop goes on: the manager must wait for at least `more_ns` from now.
  void extend_timeout(DurationNs more_ns) const;
  /// For the watchdog.
  void alive() const;

 private:
  void send(const std::string& message) const;

  std::string socket_;
  DurationNs watchdog_ns_;
};

}  // namespace skua::app

#endif  // SKUA_APP_NOTIFY_H_
