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

}  // namespace

std::string principal_text(const std::optional<Identity>& caller) {
  return caller ? absl::StrCat(role_name(caller->role), "/", caller->name) : "anonymous";
}

void Auditor::started(std::string_view version) {
  log_->write({.event = "start", .fields = {{"version", std::string(version)}}}, AuditLog::Sync::kYes);
}

void Auditor::stops() {
  tell_left_out(kTimeNever);
  log_->write({.event = "stop"}, AuditLog::Sync::kYes);
}

void Auditor::call_ended(const AuditedCall& call) {
  const bool refused = is_refusal(call.code);
  if (!refused && !is_audited(call.method)) return;
  const std::string who = principal_text(call.caller);
  uint64_t left_out = 0;
  const bool idle = !call.changed || changed_nothing(call.code);
  if (idle) {
    // Refusals do not hide what else changed nothing, nor the other way round.
    const auto admitted = admit(absl::StrCat(who, " ", call.host, refused ? " refused" : " changed nothing"));
    if (!admitted) return;
    left_out = *admitted;
  }
  AuditEntry entry{.event = refused ? "refused" : "call", .fields = {{"who", who}}, .arguments = call.arguments};
  add_text(entry.fields, "peer", call.peer);
  add_text(entry.fields, "method", short_method(call.method));
  entry.fields.emplace_back("outcome", absl::StatusCodeToString(call.code));
  add_text(entry.fields, "message", call.message);
  if (!call.changed) entry.fields.emplace_back("changed", false);
  add_count(entry.fields, left_out);
  log_->write(entry, idle ? AuditLog::Sync::kNo : AuditLog::Sync::kYes);
}

void Auditor::certificate_refused(const std::string& names, std::string_view why) {
  const auto left_out = admit(absl::StrCat("certificate ", names));
  if (!left_out) return;
  AuditEntry entry{.event = "refused"};
  add_text(entry.fields, "certificate", names);
  entry.fields.emplace_back("outcome", absl::StatusCodeToString(absl::StatusCode::kUnauthenticated));
  add_text(entry.fields, "message", why);
  add_count(entry.fields, *left_out);
  log_->write(entry, AuditLog::Sync::kNo);
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
    log_->write({.event = "left_out", .fields = {{"source", source}, {"lines", count}}}, AuditLog::Sync::kNo);
  }
}

}  // namespace skua::control
