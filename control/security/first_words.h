// What a server says to a greeting, over a connection of its own: that tells servers apart before anything is known of
// them, and whether one speaks TLS.
#ifndef SKUA_CONTROL_SECURITY_FIRST_WORDS_H_
#define SKUA_CONTROL_SECURITY_FIRST_WORDS_H_

#include <netdb.h>

#include <memory>
#include <string>
#include <string_view>

#include "rpc/base/clock.h"

namespace skua::control {

struct FreeAddresses {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// The addresses of "host:port"; null if there are none. Blocks while the system's resolver looks for a name.
[[nodiscard]] Addresses look_up(const std::string& address);

struct Words {
  bool connected = false;
  bool ended = false;
  std::string text;
};

/// What whoever listens at `to` says to `greeting`: as much of it as tells who it is. Blocks for `timeout_ns` at most.
[[nodiscard]] Words talk(const addrinfo& to, std::string_view greeting, DurationNs timeout_ns);

/// The hello of a client of TLS 1.3 (RFC 8446) that offers one cipher suite and no key yet: a server asks for one, or
/// refuses in TLS.
[[nodiscard]] std::string tls_hello();

/// Begins with a SETTINGS frame, as every HTTP/2 server does.
[[nodiscard]] bool is_http2(std::string_view text);

/// Who listens there speaks HTTP/2 in plain text, and no TLS: known from its answer to a hello of TLS. False if nobody
/// answers in time. Blocks: at most `timeout_ns` for all addresses of a name together, but for the lookup of the name
/// before, which nothing here bounds: the system's resolver does (/etc/resolv.conf). Numeric addresses need no lookup.
/// Thread: any.
[[nodiscard]] bool speaks_no_tls(const std::string& address, DurationNs timeout_ns = 300 * kMillisecond);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_FIRST_WORDS_H_
