#include "control/security/auditor.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/security/access.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

/// Of a source in the throttle.
constexpr size_t kSourceMax = 256;

bool is_refusal(absl::StatusCode code) {
  return code == absl::StatusCode::kPermissionDenied || code == absl::StatusCode::kUnauthenticated;
}

/// These codes are said before anything is changed. Of the others nobody knows.
bool changed_nothing(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented: return true;
    default: return false;
  }
}

void add_text(AuditFields& fields, const char* name, std::string_view text) {
  if (!text.empty()) fields.emplace_back(name, std::string(text));
}

void add_count(AuditFields& fields, uint64_t left_out) {
  if (left_out > 0) fields.emplace_back("left_out", left_out);
}

/// "/skua.control.v1.Tables/CreateTable" without the package, which is the same for all: "Tables/CreateTable".
std::string_view short_method(std::string_view method) {
  constexpr std::string_view kPackage = "/skua.control.v1.";
  return method.starts_with(kPackage) ? method.substr(kPackage.size()) : method;
}

AuditEntry describe(const AuditedCall& call) {
  AuditEntry entry{.event = is_refusal(call.code) ? "refused" : "call",
                   .fields = {{"who", principal_text(call.caller)}},
                   .arguments = call.arguments};
  add_text(entry.fields, "peer", call.peer);
  add_text(entry.fields, "method", short_method(call.method));
  entry.fields.emplace_back("outcome", absl::StatusCodeToString(call.code));
  add_text(entry.fields, "message", call.message);
  if (!call.changed) entry.fields.emplace_back("changed", false);
  return entry;
}

}  // namespace

std::string principal_text(const std::optional<Identity>& caller) {
  return caller ? absl::StrCat(role_name(caller->role), "/", caller->name) : "anonymous";
}

void Auditor::started(std::string_view version) {
  log_->write_change({.event = "start", .fields = {{"version", std::string(version)}}});
  log_->flush();
}

void Auditor::stops() {
  tell_left_out(kTimeNever);
  log_->write_change({.event = "stop"});
  log_->flush();
}

void Auditor::call_ended(const AuditedCall& call, AuditLog::WrittenFn answer) {
  const bool is_change = is_audited(call.method) && call.changed && !changed_nothing(call.code);
  if (is_change) return log_->write_change(describe(call), std::move(answer));
  const bool refused = is_refusal(call.code);
  if (refused || is_audited(call.method)) {
    // Refusals do not hide what else changed nothing, nor the other way round.
    const std::string source = absl::StrCat(principal_text(call.caller), " ", call.host);
    if (const auto left_out = admit(source + (refused ? " refused" : " changed nothing"))) {
      AuditEntry entry = describe(call);
      add_count(entry.fields, *left_out);
      log_->write_other(std::move(entry));
    }
  }
  if (answer) answer();
}

void Auditor::certificate_refused(const std::string& names, std::string_view why) {
  const auto left_out = admit(absl::StrCat("certificate ", names));
  if (!left_out) return;
  AuditEntry entry{.event = "refused"};
  add_text(entry.fields, "certificate", names);
  entry.fields.emplace_back("outcome", absl::StatusCodeToString(absl::StatusCode::kUnauthenticated));
  add_text(entry.fields, "message", why);
  add_count(entry.fields, *left_out);
  log_->write_other(std::move(entry));
}

std::optional<uint64_t> Auditor::admit(const std::string& source) {
  const TimeNs now = clock_.now_ns();
  tell_left_out(now);
  const std::lock_guard lock(mutex_);
  return throttle_.admit(source.substr(0, kSourceMax), now);
}

void Auditor::tell_left_out(TimeNs now) {
  std::vector<std::pair<std::string, uint64_t>> overdue;
  {
    const std::lock_guard lock(mutex_);
    overdue = throttle_.take_overdue(now);
  }
  for (const auto& [source, count] : overdue) {
    log_->write_other({.event = "left_out", .fields = {{"source", source}, {"lines", count}}});
  }
}

}  // namespace skua::control
