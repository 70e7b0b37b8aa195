// Commands about the time that keys have to live.
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::handlers {
namespace {

struct ExpireConditions {
  bool if_none = false;     // NX: the key does not expire
  bool if_some = false;     // XX
  bool if_later = false;    // GT: than it would expire so far
  bool if_earlier = false;  // LT
  [[nodiscard]] bool any() const { return if_none || if_some || if_later || if_earlier; }
};

/// Nothing: the client has been told what is wrong.
std::optional<ExpireConditions> parse_expire_conditions(CommandRun& run) {
  ExpireConditions conditions;
  for (size_t i = 3; i < run.size(); ++i) {
    const absl::string_view word = absl_view(run.arg(i));
    if (absl::EqualsIgnoreCase(word, "nx")) {
      conditions.if_none = true;
    } else if (absl::EqualsIgnoreCase(word, "xx")) {
      conditions.if_some = true;
    } else if (absl::EqualsIgnoreCase(word, "gt")) {
      conditions.if_later = true;
    } else if (absl::EqualsIgnoreCase(word, "lt")) {
      conditions.if_earlier = true;
    } else {
      return refuse(run, absl::StrCat("ERR Unsupported option ", word));
    }
  }
  if (conditions.if_none && (conditions.if_some || conditions.if_later || conditions.if_earlier)) {
    return refuse(run, errors::kExpireNxAndOthers);
  }
  if (conditions.if_later && conditions.if_earlier) return refuse(run, errors::kExpireGtAndLt);
  return conditions;
}

/// Whether the key, which is there, gets the new time.
bool hold(const ExpireConditions& conditions, const StoreResult& old, int64_t at_ms, int64_t now_ms) {
  const bool expires = old.ttl_ms.has_value();
  const int64_t old_at_ms = expires ? now_ms + static_cast<int64_t>(*old.ttl_ms) : 0;
  if (conditions.if_none && expires) return false;
  if (conditions.if_some && !expires) return false;
  if (conditions.if_later && (!expires || at_ms <= old_at_ms)) return false;
  return !(conditions.if_earlier && expires && at_ms >= old_at_ms);
}

}  // namespace

/// A time that is past removes the key.
CommandTask expire(CommandRun& run) {
  const std::optional<ExpireConditions> conditions = parse_expire_conditions(run);
  if (!conditions.has_value()) co_return;
  const std::optional<int64_t> time = integer_arg(run, 2);
  if (!time.has_value()) co_return;
  const std::optional<int64_t> at_ms = expiry_at(*time, time_form(run.spec()), run.now_ms());
  if (!at_ms.has_value()) co_return reply_bad_expiry(run);
  if (!conditions->any()) {
    const StoreResult done = co_await run.store(expire_at(run, *at_ms));
    if (!reply_failure(run, done)) run.reply().integer(done.ok() ? 1 : 0);
    co_return;
  }
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    const StoreResult old = co_await run.store(read_ttl(run));
    if (reply_failure(run, old)) co_return;
    if (!old.ok() || !hold(*conditions, old, *at_ms, run.now_ms())) co_return run.reply().integer(0);
    written = judge_write(run, co_await run.store(unless_changed(old, expire_at(run, *at_ms))));
    if (written == Written::kDone) run.reply().integer(1);
  }
}

/// The time left, or the time of day when the key expires. -1: it does not; -2: no such key.
CommandTask ttl(CommandRun& run) {
  const StoreResult got = co_await run.store(read_ttl(run));
  if (reply_failure(run, got)) co_return;
  if (!got.ok() || !got.ttl_ms.has_value()) co_return run.reply().integer(got.ok() ? -1 : -2);
  const TimeForm form = time_form(run.spec());
  const int64_t ms = static_cast<int64_t>(*got.ttl_ms) + (form.base == TimeBase::kEpoch ? run.now_ms() : 0);
  run.reply().integer(form.unit == TimeUnit::kSeconds ? (ms + 500) / 1000 : ms);
}

CommandTask persist(CommandRun& run) {
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    const StoreResult old = co_await run.store(read_ttl(run));
    if (reply_failure(run, old)) co_return;
    if (!old.ok() || !old.ttl_ms.has_value()) co_return run.reply().integer(0);
    const StoreRequest request{.kind = StoreRequest::Kind::kExpire, .key = run.arg(1)};
    written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kDone) run.reply().integer(1);
  }
}

}  // namespace skua::kv::gateway::handlers
