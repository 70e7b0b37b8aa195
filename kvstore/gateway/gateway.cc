#include "kvstore/gateway/gateway.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/security/certificate_files.h"
#include "control/security/certificates.h"
#include "kvstore/client/admin.h"
#include "rpc/base/entropy.h"
#include "rpc/base/metrics_text.h"

namespace skua::kv::gateway {
namespace {

std::string draw_run_id() {
  return absl::StrFormat("%016x%016x%08x", draw_entropy(), draw_entropy(), static_cast<uint32_t>(draw_entropy()));
}

absl::Status check_tables(const GatewayOptions& options) {
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.client.timeout);
  Admin admin(options.client.control_address, timeout, options.client.credentials);
  const absl::StatusOr<std::vector<TableInfo>> tables = admin.list_tables();
  if (!tables.ok()) return tables.status();
  for (const auto& [number, name] : options.databases) {
    if (std::ranges::find(*tables, name, &TableInfo::name) != tables->end()) continue;
    const std::string names = absl::StrJoin(
        *tables, ", ", [](std::string* out, const TableInfo& table) { absl::StrAppend(out, table.name); });
    return absl::NotFoundError(absl::StrCat(
        "database ", number, " is the table '", name, "', and there is no such table",
        tables->empty() ? "" : absl::StrCat(" (there is ", names, ")"), ": make it with skuactl table create ", name));
  }
  return absl::OkStatus();
}

/// When the certificate in the file expires: seconds since 1970. 0: it cannot be read, or there is no file.
int64_t expiry_of_file(const std::string& path) {
  if (path.empty()) return 0;
  const absl::StatusOr<std::string> text = control::read_certificate_file(path);
  if (!text.ok()) return 0;
  const auto info = control::inspect_certificate(*text);
  return info.ok() ? info->valid.until : 0;
}

}  // namespace

Gateway::Gateway() = default;

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::start(const GatewayOptions& options) {
  absl::StatusOr<ClientSecurity> security = load_client_security(options.client_security, options.databases);
  if (!security.ok()) return security.status();
  if (absl::Status status = options.check_host ? options.check_host() : absl::OkStatus(); !status.ok()) return status;
  if (absl::Status status = check_tables(options); !status.ok()) return status;
  // Sockets of this process share the address; another process of the same user could share it as well, unnoticed.
  for (const EntranceOptions& entrance : options.entrances) {
    if (absl::Status status = check_free(entrance.host, entrance.port); !status.ok()) return status;
  }
  std::unique_ptr<Gateway> gateway(new Gateway());
  GatewayIdentity& identity = gateway->identity_;
  static_cast<GatewaySettings&>(identity) = static_cast<const GatewaySettings&>(options);
  identity.run_id = draw_run_id();
  identity.started_ms = time_of_day_us() / 1000;
  identity.cursors = std::make_unique<ScanCursors>(draw_entropy());
  gateway->admin_ = std::make_unique<Admin>(options.client.control_address, kHealthTimeout, options.client.credentials);
  if (options.tells_certificate_expiry) gateway->certificate_file_ = options.client.credentials.certificate;
  gateway->note_certificate(*security);
  if (security->users != nullptr) gateway->passwords_ = std::make_unique<PasswordChecker>();
  if (absl::Status status = gateway->make_threads(options, *security); !status.ok()) return status;
  if (absl::Status status = gateway->run_threads(options); !status.ok()) return status;
  gateway->watch_files(options, *std::move(security));
  return gateway;
}

/// The entrances of one thread. Those of all threads have the same ports.
absl::StatusOr<std::vector<Entrance>> Gateway::make_entrances(const GatewayOptions& options) {
  std::vector<Entrance> made;
  for (size_t i = 0; i < options.entrances.size(); ++i) {
    const EntranceOptions& entrance = options.entrances[i];
    absl::StatusOr<OwnedFd> listener = listen_at(entrance.host, ports_[i]);
    if (!listener.ok()) return listener.status();
    ports_[i] = port_of(*listener);
    if (entrance.protocol == ClientProtocol::kResp) identity_.port = ports_[i];
    made.push_back({.listener = *std::move(listener), .protocol = entrance.protocol, .database = entrance.database});
  }
  return made;
}

void Gateway::watch_files(const GatewayOptions& options, ClientSecurity now) {
  if (options.client_security.empty()) return;
  watch_ = std::make_unique<ClientSecurityWatch>(
      options.client_security, options.databases, std::move(now),
      [this](const ClientSecurity& changed) {
        note_certificate(changed);
        for (const std::unique_ptr<GatewayThread>& thread : threads_) thread->set_security(changed);
      },
      options.report);
}

void Gateway::note_certificate(const ClientSecurity& security) {
  if (security.tls != nullptr) tls_expires_s_ = security.tls->expires_s();
}

absl::Status Gateway::make_threads(const GatewayOptions& options, const ClientSecurity& security) {
  for (const EntranceOptions& entrance : options.entrances) ports_.push_back(entrance.port);
  for (uint32_t i = 0; i < options.threads; ++i) {
    absl::StatusOr<std::vector<Entrance>> entrances = make_entrances(options);
    if (!entrances.ok()) return entrances.status();
    auto thread = GatewayThread::create(identity_, options.client, *std::move(entrances), security, passwords_.get());
    if (!thread.ok()) return thread.status();
    threads_.push_back(*std::move(thread));
  }
  return absl::OkStatus();
}

absl::Status Gateway::run_threads(const GatewayOptions& options) {
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    GatewayThread& loop = *threads_[i];
    if (options.host != nullptr) {
      absl::StatusOr<std::future<void>> end = options.host(i, loop);
      if (!end.ok()) return end.status();
      running_.push_back(*std::move(end));
    } else {
      running_.push_back(std::async(std::launch::async, [&loop]() noexcept {
        loop.begin(nullptr);
        while (loop.turn()) {
        }
      }));
    }
  }
  return absl::OkStatus();
}

std::string Gateway::metrics() {
  const auto value = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  MetricsText out;
  out.single("skua_gateway_connections", "Connections of clients.", value(identity_.connections_now));
  out.single("skua_gateway_connections_received_total", "Connections that were accepted.",
             value(identity_.connections_received));
  out.single("skua_gateway_connections_refused_total", "Connections that were refused: there were too many.",
             value(identity_.connections_refused));
  out.single("skua_gateway_connections_max", "Connections that there may be (--connections-max).",
             identity_.connections_max);
  out.single("skua_gateway_commands_total", "Commands of clients.", value(identity_.commands));
  out.single("skua_gateway_tls_failures_total",
             "Clients with which TLS was not agreed upon: no or a bad certificate, other bytes, or nothing in time.",
             value(identity_.tls_failures));
  out.single("skua_gateway_authentication_failures_total", "Wrong users or passwords that clients said.",
             value(identity_.authentication_failures));
  out.single("skua_gateway_authentication_timeouts_total",
             "Connections that were closed because their client did not authenticate in time.",
             value(identity_.authentication_timeouts));
  out.single("skua_gateway_commands_denied_total",
             "Commands that were refused: the client had not authenticated, or its user had no right.",
             value(identity_.commands_denied));
  out.single("skua_gateway_threads", "Threads that serve.", identity_.threads);
  out.single("skua_gateway_control_reachable", "1 if the control plane answers.", ask_control_plane().ok() ? 1 : 0);
  if (const int64_t expires_s = expiry_of_file(certificate_file_); expires_s > 0) {
    out.single("skua_certificate_expires_seconds",
               "When the certificate expires that the gateway shows the cluster: seconds since 1970.",
               static_cast<uint64_t>(expires_s));
  }
  if (const int64_t expires_s = tls_expires_s_.load(); expires_s > 0) {
    out.single("skua_gateway_tls_certificate_expires_seconds",
               "When the certificate expires that the gateway shows its clients: seconds since 1970.",
               static_cast<uint64_t>(expires_s));
  }
  return out.text();
}

absl::Status Gateway::ask_control_plane() {
  const std::lock_guard lock(admin_mutex_);
  return admin_->list_tables().status();
}

std::vector<HealthCheck> Gateway::readiness() {
  const bool answers = is_alive();
  const absl::Status control = ask_control_plane();
  return {{.name = "threads", .passes = answers, .detail = answers ? "" : "a thread does not answer"},
          {.name = "control-plane",
           .passes = true,  // see the header
           .detail = control.ok() ? "" : absl::StrCat("away, goes on without: ", control.message())}};
}

bool Gateway::is_alive() {
  return std::ranges::all_of(threads_, [](const auto& thread) { return thread->answers(kHealthTimeout); });
}

Gateway::~Gateway() {
  stop();
}

void Gateway::stop() {
  watch_.reset();
  for (const std::unique_ptr<GatewayThread>& thread : threads_) thread->stop();
  for (const std::future<void>& loop : running_) loop.wait();
  running_.clear();
  if (passwords_ != nullptr) passwords_->stop();
  threads_.clear();
}

}  // namespace skua::kv::gateway
