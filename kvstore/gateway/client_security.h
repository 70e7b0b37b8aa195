// Who may connect to a gateway and how: TLS (tls_stream.h) and users (client_users.h) from files, which are read again
// when they change.
//
//   files --load--> ClientSecurity --> threads of connections, each with a copy
//     |                  ^
//     +-- changed? ------+      on a thread of its own, which looks at the files four times a second
//
// States of a connection (gateway_thread.cc):
//
//   accepted -- TLS? --> handshake -- in kHandshakeMs --> encrypted
//                                                           | users file? and no certificate of a user
//                                                           v
//                                                     unauthenticated
//                                                           | right password, in --authentication-timeout
//                                                           v
//                                                        admitted
//
// A connection counts for --connections-max from the moment when it is accepted, and holds few bytes until it is
// admitted: OpenSSL's state, and parts of small commands (resp_parser.h). Commands are refused until then, but for
// those that authenticate (client_connection.h: one place). A password is checked on a thread of its own
// (password_checker.h). A hostile client costs its own connection, and of the thread the time of its handshakes.
//
// Renewal. A file that has changed is read when it has been the same for a quarter of a second, so that a file that is
// being written is not read in halves. If what is read makes no sense, what was there before stays in use, and the
// operator hears why; the file is tried again until it can be used, for the reason may pass without a change of the
// file. A new certificate counts for connections that come later. A new users file counts at once: the
// sessions of users that are gone, or have another password, end; others have their new rights for the next command.
#ifndef SKUA_KVSTORE_GATEWAY_CLIENT_SECURITY_H_
#define SKUA_KVSTORE_GATEWAY_CLIENT_SECURITY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/gateway/client_users.h"
#include "kvstore/gateway/gateway_context.h"
#include "kvstore/gateway/tls_stream.h"

namespace skua::kv::gateway {

struct ClientSecurityFiles {
  TlsFiles tls{};
  std::string users{};  ///< empty: there are no users, and whoever connects may do everything

  [[nodiscard]] bool empty() const { return tls.empty() && users.empty(); }
};

/// A value. Copies share what they point to.
struct ClientSecurity {
  std::shared_ptr<const TlsContext> tls;   ///< null: plain
  std::shared_ptr<const UserTable> users;  ///< null: there is no users file
};

/// `databases`: numbers and names of the tables that are served. FAILED_PRECONDITION: names the file and what is wrong.
[[nodiscard]] absl::StatusOr<ClientSecurity> load_client_security(const ClientSecurityFiles& files,
                                                                  const std::map<uint32_t, std::string>& databases);

/// Files, and when they have changed and come to rest. Pure: the stamps are arguments.
class ChangedFiles {
 public:
  explicit ChangedFiles(std::string stamp) : taken_(stamp), seen_(std::move(stamp)) {}
  /// True: it is another stamp than the one that was taken, and the same as at the call before.
  [[nodiscard]] bool have_changed(const std::string& stamp);
  /// The files were read as they are now. Without it they count as changed again, and are tried again.
  void take() { taken_ = seen_; }

 private:
  std::string taken_;
  std::string seen_;
};

/// Reads files again when they change. Its functions are called on a thread of its own.
class ClientSecurityWatch {
 public:
  using ChangedFn = std::function<void(const ClientSecurity&)>;

  /// `now`: what load_client_security() gave for `files`. No call comes after the destructor.
  ClientSecurityWatch(ClientSecurityFiles files, std::map<uint32_t, std::string> databases, ClientSecurity now,
                      ChangedFn on_changed, ReportFn report);
  ClientSecurityWatch(const ClientSecurityWatch&) = delete;
  ClientSecurityWatch& operator=(const ClientSecurityWatch&) = delete;

 private:
  void run(const std::stop_token& stop);
  void look();
  bool note(std::string_view path, const absl::Status& status, ChangedFiles& files, std::string& trouble) const;

  const ClientSecurityFiles files_;
  const std::map<uint32_t, std::string> databases_;
  ClientSecurity now_;
  const ChangedFn on_changed_;
  const ReportFn report_;
  // The files are read once more: they may have changed since they were loaded.
  ChangedFiles tls_{""};
  ChangedFiles users_{""};
  std::string tls_trouble_;    // why the files cannot be used; empty: they can
  std::string users_trouble_;  // likewise
  bool has_looked_ = false;    // once, at the files that the program began with
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CLIENT_SECURITY_H_
