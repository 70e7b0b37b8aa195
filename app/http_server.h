// HttpServer: a small HTTP server for operators: a fixed list of pages, read with GET. It is no way to data.
//
// What is bounded: kHttpThreads requests at a time, kHttpConnectionsMax connections beside those in the kernel's backlog,
// one request for each connection, a few kilobytes for each request, and some seconds for each read and write. So a slow
// reader costs a thread of this server for a while, and nothing else.
#ifndef SKUA_APP_HTTP_SERVER_H_
#define SKUA_APP_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "app/address.h"

namespace skua::app {

inline constexpr size_t kHttpThreads = 2;
/// Connections that are accepted and wait for a thread. Further ones wait in the kernel.
inline constexpr size_t kHttpConnectionsMax = 16;

struct HttpRequest {
  /// The names of the query's parameters are keys: {"verbose", ""} for `?verbose`.
  std::map<std::string, std::string> parameters{};
  /// The header Accept.
  std::string accept{};
};

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body{};
};

/// Makes a page. Runs on a thread of the server; several at once.
using HttpPage = std::function<HttpReply(const HttpRequest&)>;

/// Thread: one, for all methods.
class HttpServer {
 public:
  /// Serves until it is destroyed. `pages` by path: "/livez". Port 0: the system chooses one. ALREADY_EXISTS: the
  /// port is in use. UNAVAILABLE: it cannot listen there. The message names the address.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpServer>> start(const Address& address,
                                                                         std::map<std::string, HttpPage> pages);
  virtual ~HttpServer() = default;

  /// "host:port" with the real port.
  [[nodiscard]] virtual std::string address() const = 0;
};

}  // namespace skua::app

#endif  // SKUA_APP_HTTP_SERVER_H_
