// HttpServer: a small HTTP server for operators: a fixed list of pages, read with GET or HEAD. It is no way to data.
//
// Design. One thread has all sockets: it accepts, reads, writes and closes, never blocks, and waits in poll(). A second
// thread makes the pages, one after the other, for a page may wait for some seconds: meanwhile deadlines are kept and
// other requests are read. A connection serves one request: its head is read, its page is made, the reply is written,
// and the server closes.
//
// What is bounded, so that no client can keep others, this program's memory, or its end:
//
//   the time of a connection       kHttpDeadlineNs from its acceptance to its end, however many bytes come and go
//   the head of a request          kHttpHeadBytesMax (431 beyond); a body is dropped
//   connections                    kHttpConnectionsMax. For one more the oldest that waits for its client is closed
//   pages in line                  one for each connection; that of a connection that has ended is not made
//   the server's end               closes all connections at once, and waits for a page that is being made
//
// Ranges and conditions of requests are ignored: each reply has the whole page. On a loopback address the header Host
// must be an IP address, localhost or empty (421 otherwise): a web page of a foreign name that an attacker has pointed
// to 127.0.0.1 cannot read these pages by a browser of this machine.
#ifndef SKUA_APP_HTTP_SERVER_H_
#define SKUA_APP_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "app/address.h"
#include "app/http_request.h"
#include "rpc/base/clock.h"

namespace skua::app {

inline constexpr size_t kHttpConnectionsMax = 64;
inline constexpr DurationNs kHttpDeadlineNs = 10 * kSecond;

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body{};
};

/// Makes a page. Runs on a thread of the server, one page at a time.
using HttpPage = std::function<HttpReply(const HttpRequest&)>;

struct HttpServerOptions {
  Address address{};                        ///< port 0: the system chooses one
  std::map<std::string, HttpPage> pages{};  ///< by path: "/livez"
  DurationNs deadline_ns = kHttpDeadlineNs;
};

/// Thread: one, for all methods.
class HttpServer {
 public:
  /// Serves until it is destroyed, which takes as long as the page that is being made. ALREADY_EXISTS: the port is in
  /// use. UNAVAILABLE: it cannot listen there now, for example since the machine does not have the address yet. The
  /// message names the address and the system's reason.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpServer>> start(HttpServerOptions options);
  virtual ~HttpServer() = default;

  /// "host:port" with the real port.
  [[nodiscard]] virtual std::string address() const = 0;
};

}  // namespace skua::app

#endif  // SKUA_APP_HTTP_SERVER_H_
