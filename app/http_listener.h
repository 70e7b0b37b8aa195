// The socket that an HTTP server listens with.
#ifndef SKUA_APP_HTTP_LISTENER_H_
#define SKUA_APP_HTTP_LISTENER_H_

#include <string>

#include "absl/status/statusor.h"
#include "app/address.h"
#include "rpc/base/owned_fd.h"

namespace skua::app {

struct HttpListener {
  OwnedFd socket{};  ///< does not block
  /// With the real port.
  Address address{};
  bool is_loopback = false;
};

/// Port 0: the system chooses one. Blocks while a name is looked up. ALREADY_EXISTS: the port is in use. UNAVAILABLE:
/// any other reason.
[[nodiscard]] absl::StatusOr<HttpListener> listen_for_http(const Address& address);

/// "host:port", an IPv6 address in brackets.
[[nodiscard]] std::string shown(const Address& address);

}  // namespace skua::app

#endif  // SKUA_APP_HTTP_LISTENER_H_
