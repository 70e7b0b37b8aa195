// The pages that a program shows its operator over HTTP, and the options that say where.
//
//   /livez           200 if each thread that serves answers, else 503: whoever supervises the program starts it again
//   /readyz          200 if it may get work, else 503 and why; with ?verbose each check
//   /metrics         Prometheus' text format; OpenMetrics for who asks for it
#ifndef SKUA_APP_OPERATOR_PAGES_H_
#define SKUA_APP_OPERATOR_PAGES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "app/config.h"
#include "app/http_server.h"
#include "app/service_reporter.h"
#include "rpc/base/health_check.h"

namespace skua::app {

struct HttpOptions {
  /// Empty: no HTTP server.
  std::string address{};
  /// A person has allowed an address that other machines reach.
  bool allows_everybody = false;
};

/// What a program knows of itself. The functions run on threads of the HTTP server and of the service reporter, several
/// at once, and may take some seconds.
struct OperatorPages {
  std::function<bool()> is_alive{};
  std::function<std::vector<HealthCheck>()> readiness{};
  /// Prometheus' text format.
  std::function<std::string()> metrics{};
};

/// --http-address and --http-security.
void add_http_options(Command& command, HttpOptions* options);
/// INVALID_ARGUMENT: other machines reach the address, and nobody has allowed that.
[[nodiscard]] absl::Status check_http(const HttpOptions& options);
/// Null: there is to be none. What `pages` use must outlive the server. Errors: check_http()'s and
/// HttpServer::start()'s.
[[nodiscard]] absl::StatusOr<std::unique_ptr<HttpServer>> serve_pages(const HttpOptions& options,
                                                                      const OperatorPages& pages);
/// The same knowledge for the service manager.
[[nodiscard]] ServiceProbe service_probe(const OperatorPages& pages);

/// "ready", or the first check that fails. One line.
[[nodiscard]] std::string summary_of(const std::vector<HealthCheck>& checks);

}  // namespace skua::app

#endif  // SKUA_APP_OPERATOR_PAGES_H_
