#include "kvstore/client/failure_text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/codec/text.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// The first sentence of `text`, cut. Further sentences are mostly advice, and the failure's message has its own
/// advice.
std::string shown_outcome(std::string_view text) {
  text = text.substr(0, text.find(". "));
  return printable(text, kShownOutcomeBytesMax);  // a node's words, which applications may log
}

/// The number of attempts, and how the last failed attempt ended. FailureDetail has more of them. `whom`: the node that
/// the message names already.
std::string describe_attempts(const Operation& operation, const std::string& whom) {
  const Attempt& last = operation.trail.back();
  std::string text = absl::StrFormat("%d attempts in %.1f s, the last", operation.failed_attempts,
                                     static_cast<double>(last.started.count()) / kSecond);
  if (!last.whom.empty() && last.whom != whom) absl::StrAppend(&text, " on ", last.whom);
  absl::StrAppend(&text, ": ", shown_outcome(last.outcome));
  return text;
}

/// The meaning of a status that came without a text, as in replies of a BATCH. Empty: the name of the status says
/// enough.
std::string words_of(Method method, const Condition& condition, KvStatus status, uint64_t version) {
  std::string has = absl::StrCat("the key has version ", version);
  switch (status) {
    case KvStatus::kVersionMismatch:
      // An absent key has version 0.
      return absl::StrCat(
          version == 0 ? "the key does not exist" : has,
          condition.version == 0 ? "" : absl::StrCat("; version ", condition.version, " was asked for"));
    case KvStatus::kAlreadyExists: return has;
    case KvStatus::kNotFound: return "there is no such key";
    case KvStatus::kNotANumber: return "the value is no decimal integer of 64 bits";
    case KvStatus::kCounterOverflow: return "the sum is beyond 64 bits";
    case KvStatus::kNotARow:
      if (method == Method::kGet) return "the value is not a row of fields: read it whole";
      return "the value is not a row of fields, or is not marked as one: PUT it whole";
    case KvStatus::kIsARow: return "the record is marked as a row: PATCH it, or PUT it whole";
    case KvStatus::kInvalidArgument:
      if (method != Method::kAppend) return {};
      return absl::StrCat("the value would have more than ", with_commas(kValueBytesMax), " bytes, which is the limit");
    default: return {};
  }
}

}  // namespace

std::string quoted_key(std::string_view key) {
  const std::string_view start = key.substr(0, kShownKeyBytesMax);
  return absl::StrCat("\"", absl::CHexEscape(absl_view(start)), "\"", start.size() < key.size() ? "..." : "");
}

std::string describe_operation(const Operation& operation) {
  std::string text = absl::StrCat(method_name(operation.method), " ", operation.table);
  const std::string_view key = operation.shown_key();
  if (!key.empty()) absl::StrAppend(&text, "/", quoted_key(key));
  if (operation.shard_known) absl::StrAppend(&text, " (shard ", operation.shard, ")");
  return text;
}

Outcome make_failure(const Operation& operation, const RouteTable& routes, absl::StatusCode code,
                     std::string_view cause, bool may_have_been_applied) {
  auto detail = std::make_shared<FailureDetail>();
  detail->table = operation.table;
  if (operation.shard_known) detail->shard = operation.shard;
  detail->attempts = operation.trail;
  detail->attempt_count = operation.failed_attempts;

  std::string text = describe_operation(operation);
  const std::string whom = routes.describe(operation.target);
  if (!whom.empty()) absl::StrAppend(&text, " on ", whom);
  absl::StrAppend(&text, ": ", absl_view(cause));
  if (operation.failed_attempts > 1) absl::StrAppend(&text, "; ", describe_attempts(operation, whom));
  if (may_have_been_applied) {
    absl::StrAppend(&text, "; the write may have been applied: read the key before writing it again, with if_version");
  }

  return {
      .status = absl::Status(code, text), .may_have_been_applied = may_have_been_applied, .detail = std::move(detail)};
}

std::string describe_answer(Method method, const Condition& condition, KvStatus status, uint64_t version,
                            std::string_view text) {
  // For these two, the key's version says more than the reply's text.
  const bool of_version = status == KvStatus::kVersionMismatch || status == KvStatus::kAlreadyExists;
  const std::string words =
      text.empty() || of_version ? words_of(method, condition, status, version) : std::string(text);
  return status_text(status, words);
}

absl::Status make_answer_status(const Operation& operation, const Condition& condition, const ReplyHead& head) {
  const std::string why = describe_answer(operation.method, condition, head.status, head.version, head.text);
  return absl::Status(to_status_code(head.status), absl::StrCat(describe_operation(operation), ": ", why));
}

}  // namespace skua::kv
