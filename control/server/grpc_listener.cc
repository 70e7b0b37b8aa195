#include "control/server/grpc_listener.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/server/call_audit.h"
#include "control/server/controller_limits.h"

namespace skua::control {
namespace {

absl::Status bind_error(const std::string& address, const std::string& port, int error) {
  const std::string what =
      absl::StrCat("cannot listen on ", address, ": ", std::error_code(error, std::generic_category()).message());
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(
          what, ". Choose another port, or stop the process that has it (ss -ltnp 'sport = :", port, "' names it)"));
    case EACCES: return absl::PermissionDeniedError(absl::StrCat(what, ". Choose a port above 1023"));
    case EADDRNOTAVAIL:  // The interface may come up later.
      return absl::UnavailableError(absl::StrCat(what, ". Choose an address of this machine (ip addr shows them)"));
    default: return absl::UnavailableError(what);
  }
}

/// Binds and closes again: everything that can be wrong with an address shows here, with its
/// reason.
absl::Status try_bind(const std::string& address, const HostPort& parts) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (error != 0) {
    const std::string text = absl::StrCat("cannot listen on ", address, ": ", gai_strerror(error),
                                          ". Give an IP address of this machine, for example 127.0.0.1:", parts.port);
    // A name server that does not answer may do so when the machine has started.
    return error == EAI_AGAIN ? absl::UnavailableError(text) : absl::InvalidArgumentError(text);
  }
  absl::Status status;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
    status = bind_error(address, parts.port, errno);
  }
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return status;
}

}  // namespace

absl::StatusOr<HostPort> split_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    host.clear();
  }
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || !digits || std::stoi(port) > 65'535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not host:port, for example 127.0.0.1:7400 or [::1]:7400"));
  }
  return HostPort{host, port};
}

absl::Status check_listen(const std::string& address) {
  const auto parts = split_address(address);
  return parts.ok() ? try_bind(address, *parts) : parts.status();
}

absl::StatusOr<Listener> listen(grpc::ServerBuilder& builder, const std::string& address,
                                const CredentialsPtr& credentials, const std::shared_ptr<Auditor>& auditor,
                                DoorLog log) {
  return listen_with(builder, address, server_credentials(credentials, auditor), auditor,
                     {.calls_per_connection = kCallsPerConnectionMax,
                      .takes_plaintext = takes_plaintext(credentials),
                      .log = std::move(log)});
}

absl::StatusOr<Listener> listen_with(grpc::ServerBuilder& builder, const std::string& address,
                                     std::shared_ptr<grpc::ServerCredentials> credentials,
                                     const std::shared_ptr<Auditor>& auditor, ListenRules rules) {
  const auto parts = split_address(address);
  if (!parts.ok()) return parts.status();
  if (auto status = try_bind(address, *parts); !status.ok()) return status;
  ConnectionDoor::Failure failure;
  Listener listener;
  listener.door = ConnectionDoor::listen(parts->host, parts->port, failure);
  if (listener.door == nullptr) {
    return failure.text.empty()
               ? bind_error(address, parts->port, failure.error)
               : absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", failure.text));
  }
  // Watches and idle connections: notice a dead peer, and bear with clients that ping to notice a
  // dead server.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 2'000);
  // A connection is a file descriptor, which a node's files need as well: whoever says nothing does not keep one.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);
  grpc::ResourceQuota quota(address);
  quota.Resize(rules.memory_max);
  if (rules.threads_max != 0) quota.SetMaxThreads(rules.threads_max);
  builder.SetResourceQuota(quota);
  // Each call that is open holds memory, a reply that its caller does not read up to a shard map's size.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(rules.calls_per_connection));
  auto inside = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> without_tls;
  if (rules.takes_plaintext) {
    without_tls = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  }
  if (auditor != nullptr) audit_calls(builder, auditor);
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr) return absl::UnavailableError("gRPC could not start a server");
  listener.door->open(std::move(inside), std::move(without_tls), rules.whom, std::move(rules.log));
  listener.address = absl::StrCat(address.substr(0, address.rfind(':')), ":", listener.door->port());
  return listener;
}

}  // namespace skua::control
