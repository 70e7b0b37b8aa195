// Auditor: what goes into the audit log of a server (audit_log.h).
//
//     event      when                                                           on the disk
//     start      the program has started                                        at once
//     stop       it ends, by itself                                             at once
//     call       a call that changes the cluster ended (access.h: `audited`)    if it changed something, before the
//                                                                               answer goes out
//     refused    a call ended with PERMISSION_DENIED or UNAUTHENTICATED, or     soon
//                a connection was refused because of its certificate
//     left_out   of a source that is silent now, lines were left out            soon
//
// Starts, stops and calls that changed something are the log's changes; all others are not (audit_log.h).
//
// A call that changed nothing, because it failed, was refused or had nothing to do, gets at most one line a second and
// source (RefusalThrottle). A source is the caller's certificate and host.
#ifndef SKUA_CONTROL_SECURITY_AUDITOR_H_
#define SKUA_CONTROL_SECURITY_AUDITOR_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "control/security/audit_log.h"
#include "control/security/identity.h"
#include "control/security/refusal_throttle.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// A call that has ended. Views are used during the call only.
struct AuditedCall {
  /// Nothing: without TLS.
  std::optional<Identity> caller{};
  /// Address and port; empty: not known.
  std::string peer{};
  /// Its host, without the port.
  std::string host{};
  /// As in a request's path.
  std::string_view method;
  AuditFields arguments{};
  bool changed = true;  ///< false: it is known that there was nothing to do, or that nothing was done
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view message{};
};

/// "admin/ada", "anonymous".
[[nodiscard]] std::string principal_text(const std::optional<Identity>& caller);

/// Thread: any.
class Auditor {
 public:
  /// `clock` must outlive it.
  Auditor(std::unique_ptr<AuditLog> log, const Clock& clock) : log_(std::move(log)), clock_(clock) {}
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;

  /// Waits until the line is on the disk.
  void started(std::string_view version);
  /// Tells what was left out, too. Waits until all lines are in the files.
  void stops();

  /// A method that is not audited gets a line only if the call was refused. `answer`, which may be empty, runs once:
  /// now, or when the line of a change is on the disk (AuditLog::write_change()).
  void call_ended(const AuditedCall& call, AuditLog::WrittenFn answer = {});

  /// The peer's certificate is signed by an authority that is trusted, but `names` (its URIs) are not of this cluster.
  void certificate_refused(const std::string& names, std::string_view why);

  /// Why lines are lost, for people; empty: none are.
  [[nodiscard]] std::string trouble() const { return log_->trouble(); }
  [[nodiscard]] const AuditLog& log() const { return *log_; }

 private:
  /// Nothing: it is left out.
  [[nodiscard]] std::optional<uint64_t> admit(const std::string& source);
  void tell_left_out(TimeNs now);

  const std::unique_ptr<AuditLog> log_;
  const Clock& clock_;
  std::mutex mutex_;
  RefusalThrottle throttle_;  // protected by mutex_
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_AUDITOR_H_
