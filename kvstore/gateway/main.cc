// skua-gateway: lets clients of Redis and memcached read and write tables of a cluster.
#include <malloc.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "app/config.h"
#include "app/exit.h"
#include "app/log.h"
#include "app/notify.h"
#include "app/operator_pages.h"
#include "app/process.h"
#include "app/service_reporter.h"
#include "app/signals.h"
#include "app/version.h"
#include "control/proto/grpc_log.h"
#include "kvstore/client/certificate_keeper.h"
#include "kvstore/gateway/gateway.h"
#include "kvstore/gateway/gateway_options.h"
#include "kvstore/gateway/gateway_sockets.h"
#include "kvstore/gateway/password_hash.h"
#include "kvstore/gateway/password_prompt.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

constexpr DurationNs kUnsafeReminderNs = 3600 * kSecond;
/// Descriptors beside those of connections.
constexpr uint64_t kOwnFiles = 128;

/// Ends the process. What only another configuration can mend has an exit code of its own.
[[noreturn]] void fail_start(const absl::Status& why) {
  if (absl::IsInvalidArgument(why) || absl::IsFailedPrecondition(why) || absl::IsAlreadyExists(why))
    app::fail_usage(kProgram, std_view(why.message()));
  app::fail(kProgram, std_view(why.message()));
}

template <typename T>
T value_or_fail(absl::StatusOr<T> result) {
  if (!result.ok()) fail_start(result.status());
  return *std::move(result);
}

void warn(const ProgramOptions& options, const app::Logger& logger) {
  if (const std::string warning = exposure_warning(options); !warning.empty()) logger.warning(warning);
}

/// What the gateway shows its operator. It must outlive the pages.
app::OperatorPages pages_of(Gateway& gateway) {
  return {.is_alive = [&gateway] { return gateway.is_alive(); },
          .readiness = [&gateway] { return gateway.readiness(); },
          .metrics = [&gateway] { return gateway.metrics(); }};
}

/// Null: nobody asked for it.
std::unique_ptr<CertificateKeeper> keeper_of(const ProgramOptions& options, const app::Logger& logger) {
  if (!options.renews_certificate) return nullptr;
  return value_or_fail(CertificateKeeper::start(
      options.client.control_address, options.client.credentials, [logger](bool warning, const std::string& line) {
        logger.log(warning ? app::LogLevel::kWarning : app::LogLevel::kInfo, line);
      }));
}

/// Empty: the protocol is not spoken.
std::string shown_address(const GatewayOptions& options, const Gateway& gateway, ClientProtocol protocol) {
  for (size_t i = 0; i < options.entrances.size(); ++i) {
    const EntranceOptions& entrance = options.entrances[i];
    if (entrance.protocol == protocol) return address_text(entrance.host, gateway.ports()[i]);
  }
  return "";
}

/// Values of slow clients come and go in any order. glibc would soon take even values of many MiB from its heap, where
/// each that lives keeps what others beside it have left: the process would grow to several times what it holds. So
/// large values have mappings of their own, which go back to the system.
void give_back_large_values() {
#ifdef __GLIBC__
  static_cast<void>(mallopt(M_MMAP_THRESHOLD, 128 << 10));  // NOLINT(concurrency-mt-unsafe): no thread allocates yet
  static_cast<void>(mallopt(M_TRIM_THRESHOLD, 1 << 20));    // NOLINT(concurrency-mt-unsafe)
#endif
}

int serve(const ProgramOptions& options, GatewayOptions&& gateway_options, app::StopSignal& stop) {
  give_back_large_values();
  const app::Logger logger(options.log);
  app::ServiceReporter reporter(app::Notifier::from_environment());
  const uint64_t files = app::open_files_max();
  if (files < gateway_options.connections_max + kOwnFiles) {
    logger.warning(
        "fewer files may be open than connections are allowed: raise the limit (ulimit -n), or lower "
        "--connections-max",
        {{"files", files}, {"connections_max", gateway_options.connections_max}});
  }
  gateway_options.report = reporter_to(logger);
  const std::unique_ptr<CertificateKeeper> keeper = keeper_of(options, logger);
  const std::unique_ptr<Gateway> gateway = value_or_fail(Gateway::start(gateway_options));
  std::unique_ptr<app::HttpServer> http = value_or_fail(app::serve_pages(options.http, pages_of(*gateway)));
  warn(options, logger);
  logger.info("started", {{"listen_address", shown_address(gateway_options, *gateway, ClientProtocol::kResp)},
                          {"memcached_address", shown_address(gateway_options, *gateway, ClientProtocol::kMemcached)},
                          {"http_address", http == nullptr ? "none" : http->address()},
                          {"control_address", options.client.control_address},
                          {"threads", options.threads},
                          {"version", app::version()}});
  reporter.ready(app::service_probe(pages_of(*gateway)));
  const int signal = stop.wait(kUnsafeReminderNs, [&] { warn(options, logger); });
  logger.info("stopping: the process was asked to", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  reporter.stopping();
  http.reset();  // its pages ask the gateway
  gateway->stop();
  logger.info("stopped");
  return app::kExitOk;
}

/// --hash-password. At a terminal it asks, and does not show what is typed.
int print_password_hash() {
  const std::string password = value_or_fail(read_password());
  std::cout << password_hash_text(value_or_fail(hash_password(password))) << "\n" << std::flush;
  if (!std::cout) app::fail(kProgram, "cannot write to standard output");
  return app::kExitOk;
}

int run(int argc, const char* const* argv) {
  app::check_process(kProgram, app::kFilesOfServer);
  control::silence_grpc_log();
  auto stop = value_or_fail(app::StopSignal::install());
  ProgramOptions options;
  app::Program program({.name = kProgram,
                        .summary = "Serves tables of a Skua cluster to clients of Redis and memcached",
                        .description =
                            "Speaks Redis's protocol (RESP2 and RESP3) and memcached's text protocol to their "
                            "tools and client libraries, and reads and writes keys of a cluster for them. "
                            "docs/gateway.md says which commands there are, and what differs.",
                        .manual_section = 8});
  declare(program, options);
  program.parse_or_exit(argc, argv);
  if (options.hashes_password) {
    stop.reset();  // Ctrl-C ends the question
    return print_password_hash();
  }
  return serve(options, value_or_fail(gateway_options(options)), *stop);
}

}  // namespace
}  // namespace skua::kv::gateway

int main(int argc, char** argv) {
  return skua::kv::gateway::run(argc, argv);
}
