// The part of GatewayThread that is about clients which are not admitted yet, and about what admits them. The states of
// a connection: client_security.h.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "kvstore/gateway/client_certificate.h"
#include "kvstore/gateway/gateway_thread.h"
#include "rpc/base/check.h"

namespace skua::kv::gateway {
namespace {

/// Records of one connection before others have their turn.
constexpr int kRecordsPerTurn = 16;
/// How long handshakes may go on in a turn of the loop. A step that has begun is finished.
constexpr std::chrono::microseconds kShakeTime{500};

/// The address without its port; of IPv6 the network of 64 bits, which one host usually has for itself.
std::string host_of(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  in6_addr ipv6{};
  if (host.size() < 2 || host.front() != '[' ||
      inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &ipv6) != 1) {
    return host;
  }
  // An IPv4 client of a listener at [::] is one address.
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) return host;
  std::fill(std::begin(ipv6.s6_addr) + 8, std::end(ipv6.s6_addr), 0);
  return std::string(reinterpret_cast<const char*>(ipv6.s6_addr), 8);
}

StoreResult result_of(PasswordChecker::Verdict verdict) {
  if (verdict == PasswordChecker::Verdict::kRight) return {};
  const bool is_busy = verdict == PasswordChecker::Verdict::kBusy;
  return {.status = is_busy ? StoreResult::Status::kNotApplied : StoreResult::Status::kNotFound};
}

}  // namespace

/// False: there is no memory for the connection's TLS.
bool GatewayThread::begin_admission(Connection& connection) {
  const int64_t now_ms = monotonic_ms();
  if (tls_ != nullptr) {
    connection.tls = TlsStream::accept(*tls_, connection.fd);
    if (connection.tls == nullptr) return false;
    handshakes_.add(connection.id, now_ms);
  }
  note_admission(connection);
  return true;
}

/// A connection that is not admitted has --authentication-timeout: a new one, one after RESET, and one whose user is
/// gone and that does not take its last replies.
void GatewayThread::note_admission(Connection& connection) {
  const bool is_admitted = connection.client.is_admitted();
  if (is_admitted == connection.was_admitted) return;
  connection.was_admitted = is_admitted;
  if (is_admitted) return;
  connection.stranger_since_ms = monotonic_ms();
  if (!std::exchange(connection.has_deadline, true)) {
    authentications_.add(connection.id, connection.stranger_since_ms);
  }
}

/// True: it is done.
bool GatewayThread::shake_hands(Connection& connection) {
  switch (connection.tls->handshake()) {
    case TlsStream::Progress::kAgain: return false;
    case TlsStream::Progress::kDone: break;
    case TlsStream::Progress::kFailed:
      connection.has_ended = true;  // nothing was answered: serve() closes it
      if (!connection.tls->has_heard()) return false;
      identity_.tls_failures.fetch_add(1, std::memory_order_relaxed);
      if (identity_.report) {
        identity_.report(true, "TLS failed with a client", remote_address(connection.fd), connection.tls->error());
      }
      return false;
  }
  connection.client.take_certificate(certificate_user(connection.tls->verified_chain()));
  return true;
}

/// The others have their turn after those who are in already.
void GatewayThread::shake_some_hands() {
  const auto until = std::chrono::steady_clock::now() + kShakeTime;
  do {
    const std::optional<uint64_t> id = ready_to_shake_.take();
    if (!id.has_value()) return;
    Connection* const connection = find(*id);
    SKUA_CHECK(connection != nullptr, "a connection that has ended waits for its handshake");
    if (shake_hands(*connection)) receive_encrypted(*connection);
    serve(*connection);
  } while (std::chrono::steady_clock::now() < until);
}

void GatewayThread::receive_encrypted(Connection& connection) {
  if (!connection.tls->is_ready()) {
    ready_to_shake_.add(connection.id, host_of(remote_address(connection.fd)), uint64_t{connection.id});
    return;
  }
  for (int i = 0; i < kRecordsPerTurn && connection.unread.empty() && !connection.has_ended; ++i) {
    const Transferred got = connection.tls->read(read_buffer_);
    if (got.is_over) connection.has_ended = true;
    if (got.bytes == 0) return;
    feed(connection, std::string_view(read_buffer_.data(), got.bytes));
  }
}

void GatewayThread::check_password(Connection& connection, const IssuedRequest& issued) {
  const uint64_t id = connection.id;
  const StoreTicket ticket = issued.ticket;
  const ClientUser* const user = issued.request.user;
  const PasswordChecker::Answer answer =
      passwords_->check(user == nullptr ? std::nullopt : user->password, issued.request.value,
                        host_of(remote_address(connection.fd)), [this, id, ticket](PasswordChecker::Verdict later) {
                          {
                            const std::lock_guard lock(mutex_);
                            checked_passwords_.push_back({id, ticket, result_of(later)});
                          }
                          wake();
                        });
  connection.check = answer.waits;
  connection.check_is_last = false;
  connection.check_ticket = ticket;
  if (answer.verdict.has_value()) take_result(id, ticket, result_of(*answer.verdict));
}

/// The client sends no more while its password waits for its check.
void GatewayThread::put_check_last(Connection& connection) {
  if (connection.check == 0 || std::exchange(connection.check_is_last, true)) return;
  if (passwords_->put_last(connection.check)) return;
  connection.check = 0;
  take_result(connection.id, connection.check_ticket, result_of(PasswordChecker::Verdict::kBusy));
}

void GatewayThread::take_password(LateResult&& checked) {
  if (Connection* const connection = find(checked.connection); connection != nullptr) connection->check = 0;
  take_result(checked.connection, checked.ticket, std::move(checked.result));
}

void GatewayThread::set_security(ClientSecurity security) {
  {
    const std::lock_guard lock(mutex_);
    new_security_ = std::move(security);
  }
  wake();
}

void GatewayThread::take_security(ClientSecurity&& security) {
  tls_ = std::move(security.tls);
  if (context_.users == security.users) return;
  context_.users = std::move(security.users);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].connection == nullptr) continue;
    slots_[i].connection->client.take_users();
    serve(*slots_[i].connection);
  }
}

void GatewayThread::end_late_connections() {
  const int64_t now_ms = monotonic_ms();
  while (const std::optional<uint64_t> id = handshakes_.take_due(now_ms)) {
    Connection* const connection = find(*id);
    if (connection == nullptr || connection->tls->is_ready()) continue;
    identity_.tls_failures.fetch_add(1, std::memory_order_relaxed);
    close(*connection);
  }
  while (const std::optional<uint64_t> id = authentications_.take_due(now_ms)) {
    Connection* const connection = find(*id);
    if (connection == nullptr) continue;
    connection->has_deadline = false;
    if (connection->client.is_admitted()) continue;
    if (connection->stranger_since_ms + identity_.authentication_timeout.count() > now_ms) {
      // It was admitted meanwhile.
      connection->has_deadline = true;
      authentications_.add(*id, now_ms);
      continue;
    }
    identity_.authentication_timeouts.fetch_add(1, std::memory_order_relaxed);
    close(*connection);
  }
}

}  // namespace skua::kv::gateway
