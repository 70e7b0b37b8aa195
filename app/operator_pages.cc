#include "app/operator_pages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "control/security/exposure.h"
#include "rpc/base/metrics_text.h"

namespace skua::app {
namespace {

constexpr AddressRules kHttpRules{.zero_port_allowed = true, .any_host_allowed = true};
constexpr int kUnavailable = 503;

bool is_ready(const std::vector<HealthCheck>& checks) {
  return std::ranges::all_of(checks, &HealthCheck::passes);
}

/// A line for each check, in the form of Kubernetes' own.
std::string verbose_text(const std::vector<HealthCheck>& checks) {
  std::string text;
  for (const HealthCheck& check : checks) {
    absl::StrAppend(&text, check.passes ? "[+]" : "[-]", check.name, check.passes ? " ok" : " failed",
                    check.detail.empty() ? "" : ": ", check.detail, "\n");
  }
  return absl::StrCat(text, "readyz check ", is_ready(checks) ? "passed" : "failed", "\n");
}

HttpReply live_page(bool is_alive) {
  return is_alive ? HttpReply{.body = "ok\n"}
                  : HttpReply{.status = kUnavailable, .body = "a thread that serves does not answer\n"};
}

HttpReply ready_page(const std::vector<HealthCheck>& checks, const HttpRequest& request) {
  HttpReply reply{.status = is_ready(checks) ? 200 : kUnavailable};
  const bool is_verbose = request.parameters.contains("verbose");
  reply.body = is_verbose ? verbose_text(checks) : is_ready(checks) ? "ok\n" : summary_of(checks) + "\n";
  return reply;
}

HttpReply metrics_page(std::string text, const HttpRequest& request) {
  if (absl::StrContains(request.accept, "application/openmetrics-text")) {
    return {.content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
            .body = to_open_metrics(text)};
  }
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(text)};
}

}  // namespace

void add_http_options(Command& command, HttpOptions* options) {
  command
      .add_string("http-address", &options->address,
                  "Where /livez, /readyz and /metrics are served over HTTP; port 0 takes a free one. Empty: nowhere.")
      .value_name("HOST:PORT")
      .check([](const std::string& text) -> std::optional<std::string> {
        if (text.empty()) return std::nullopt;
        const absl::Status status = check_address(text, kHttpRules);
        return status.ok() ? std::nullopt : std::optional(std::string(status.message()));
      });
  command.add_choice<bool>(
      "http-security", &options->allows_everybody, {{"auto", false}, {"off-unsafe", true}},
      "auto: --http-address is on loopback only. off-unsafe: on any address: whoever reaches it may read the figures "
      "and the health of this program, for there are neither passwords nor TLS.");
}

absl::Status check_http(const HttpOptions& options) {
  if (options.address.empty() || options.allows_everybody) return absl::OkStatus();
  const absl::StatusOr<Address> address = parse_address(options.address, kHttpRules);
  if (!address.ok() || control::is_loopback(address->host)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--http-address ", options.address,
                   " can be reached from other machines, and there are neither passwords nor TLS: listen on 127.0.0.1, "
                   "or allow it with --http-security off-unsafe"));
}

absl::StatusOr<std::unique_ptr<HttpServer>> serve_pages(const HttpOptions& options, const OperatorPages& pages) {
  if (options.address.empty()) return nullptr;
  if (absl::Status status = check_http(options); !status.ok()) return status;
  const absl::StatusOr<Address> address = parse_address(options.address, kHttpRules);
  if (!address.ok()) return address.status();
  return HttpServer::start(
      {.address = *address,
       .pages = {
           {"/livez", [pages](const HttpRequest& /*request*/) { return live_page(pages.is_alive()); }},
           {"/readyz", [pages](const HttpRequest& request) { return ready_page(pages.readiness(), request); }},
           {"/metrics", [pages](const HttpRequest& request) { return metrics_page(pages.metrics(), request); }}}});
}

ServiceProbe service_probe(const OperatorPages& pages) {
  return {.is_alive = pages.is_alive, .status = [pages] { return summary_of(pages.readiness()); }};
}

std::string summary_of(const std::vector<HealthCheck>& checks) {
  const auto failed = std::ranges::find(checks, false, &HealthCheck::passes);
  if (failed == checks.end()) return "ready";
  return absl::StrCat("not ready: ", failed->name, failed->detail.empty() ? "" : ": ", failed->detail);
}

}  // namespace skua::app
