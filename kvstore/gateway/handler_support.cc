#include "kvstore/gateway/handler_support.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/redis_numbers.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

std::string failure_text(StoreResult::Status status, std::string_view text) {
  const absl::string_view shown = absl_view(text);
  switch (status) {
    case StoreResult::Status::kNotApplied: return absl::StrCat("TRYAGAIN ", shown);
    case StoreResult::Status::kUnknown: return absl::StrCat("ERR outcome unknown: ", shown);
    case StoreResult::Status::kNoRight: return absl::StrCat("NOPERM ", shown);
    case StoreResult::Status::kManyShards: return std::string(errors::kCrossSlot);
    default: return absl::StrCat("ERR ", shown);
  }
}

}  // namespace

bool reply_failure(CommandRun& run, const StoreResult& result) {
  if (!result.is_failure()) return false;
  reply_failure(run, result.status, result.text);
  return true;
}

void reply_failure(CommandRun& run, StoreResult::Status status, std::string_view text) {
  run.reply().error(failure_text(status, text));
}

bool reply_error_if(CommandRun& run, bool is_wrong, std::string_view error) {
  if (is_wrong) run.reply().error(error);
  return is_wrong;
}

std::nullopt_t refuse(CommandRun& run, std::string_view error) {
  run.reply().error(error);
  return std::nullopt;
}

bool reply_not_string(CommandRun& run, const StoreResult& got) {
  return reply_failure(run, got) || reply_error_if(run, got.ok() && got.mark.row, errors::kWrongType);
}

bool reply_not_hash(CommandRun& run, const StoreResult& got) {
  if (reply_failure(run, got)) return true;
  const bool is_hash = got.ok() ? got.mark.row : got.status != StoreResult::Status::kNotARow;
  return reply_error_if(run, !is_hash, errors::kWrongType);
}

StoreRequest read_value(const CommandRun& run) {
  return {.kind = StoreRequest::Kind::kGet, .key = run.arg(1), .with_mark = true};
}

StoreRequest read_mark(const CommandRun& run) {
  return {.kind = StoreRequest::Kind::kGet, .key = run.arg(1), .with_mark = true, .drops_value = true};
}

StoreRequest read_ttl(const CommandRun& run) {
  return {.kind = StoreRequest::Kind::kGet, .key = run.arg(1), .with_ttl = true, .drops_value = true};
}

bool ask_value(const CommandRun& run, StoreRequest& request) {
  request.kind = StoreRequest::Kind::kGet;
  request.key = run.arg(1);
  request.with_mark = true;
  request.borrows_value = true;
  return true;
}

void reply_value(CommandRun& run, StoreResult&& got) {
  if (reply_failure(run, got)) return;
  if (!got.ok()) return run.reply().null();
  if (got.is_borrowed) return run.reply().bulk(got.value.bytes());
  run.reply().bulk(std::move(got.value));
}

bool reply_long_pattern(CommandRun& run, std::string_view pattern) {
  return reply_error_if(run, pattern.size() > kPatternBytesMax, errors::kPatternTooLong);
}

bool reply_too_many_questions(CommandRun& run, size_t name_words) {
  return reply_error_if(run, run.size() > name_words + kQuestionsMax, errors::kTooManyQuestions);
}

std::optional<int64_t> integer_arg(CommandRun& run, size_t index) {
  const std::optional<int64_t> number = parse_integer(run.arg(index));
  if (!number.has_value()) run.reply().error(errors::kNotAnInteger);
  return number;
}

// --- Read, then write

StoreRequest unless_changed(const StoreResult& old, StoreRequest request) {
  if (old.ok()) {
    request.if_version = old.version;
  } else {
    request.if_absent = true;
  }
  return request;
}

Written judge_write(CommandRun& run, const StoreResult& result) {
  if (reply_failure(run, result)) return Written::kFailed;
  if (result.ok()) return Written::kDone;
  if (run.may_contest()) return Written::kAgain;
  run.reply().error(errors::kChangesTooOften);
  return Written::kFailed;
}

// --- Expiry

void reply_bad_expiry(CommandRun& run) {
  run.reply().error(absl::StrCat("ERR invalid expire time in '", absl_view(run.spec().name), "' command"));
}

TimeForm time_form(const CommandSpec& spec) {
  return {.unit = spec.has(kMilliseconds) ? TimeUnit::kMilliseconds : TimeUnit::kSeconds,
          .base = spec.has(kTimeOfDay) ? TimeBase::kEpoch : TimeBase::kNow};
}

std::optional<int64_t> expiry_at(int64_t time, TimeForm form, int64_t now_ms) {
  if (form.unit == TimeUnit::kSeconds && __builtin_mul_overflow(time, int64_t{1000}, &time)) return std::nullopt;
  if (form.base == TimeBase::kNow && __builtin_add_overflow(time, now_ms, &time)) return std::nullopt;
  const bool is_too_late = time > 0 && time - now_ms > static_cast<int64_t>(kTtlMsMax);
  return is_too_late ? std::nullopt : std::optional(time);
}

std::optional<int64_t> expiry_arg(CommandRun& run, size_t index, TimeForm form) {
  const std::optional<int64_t> time = integer_arg(run, index);
  if (!time.has_value()) return std::nullopt;
  const std::optional<int64_t> at = *time > 0 ? expiry_at(*time, form, run.now_ms()) : std::nullopt;
  if (!at.has_value()) reply_bad_expiry(run);
  return at;
}

std::optional<TimeForm> expiry_option(std::string_view word) {
  const absl::string_view option = absl_view(word);
  if (absl::EqualsIgnoreCase(option, "ex")) return TimeForm{TimeUnit::kSeconds, TimeBase::kNow};
  if (absl::EqualsIgnoreCase(option, "px")) return TimeForm{TimeUnit::kMilliseconds, TimeBase::kNow};
  if (absl::EqualsIgnoreCase(option, "exat")) return TimeForm{TimeUnit::kSeconds, TimeBase::kEpoch};
  if (absl::EqualsIgnoreCase(option, "pxat")) return TimeForm{TimeUnit::kMilliseconds, TimeBase::kEpoch};
  return std::nullopt;
}

StoreRequest put_until(std::string_view key, std::string_view value, int64_t at_ms, int64_t now_ms) {
  if (at_ms <= now_ms) return {.kind = StoreRequest::Kind::kRemove, .key = key};
  return {
      .kind = StoreRequest::Kind::kPut, .key = key, .value = value, .ttl_ms = static_cast<uint64_t>(at_ms - now_ms)};
}

StoreRequest expire_at(const CommandRun& run, int64_t at_ms) {
  StoreRequest request = put_until(run.arg(1), {}, at_ms, run.now_ms());
  if (request.kind == StoreRequest::Kind::kPut) request.kind = StoreRequest::Kind::kExpire;
  return request;
}

// --- Commands of several keys

void WriteTally::add(const StoreResult& result) {
  if (result.ok()) ++ok_count_;
  if (!result.is_failure()) return;
  is_unknown_ = is_unknown_ || result.status == StoreResult::Status::kUnknown;
  if (first_failure_.has_value()) return;
  first_failure_ = result.status;
  text_ = result.text;
}

bool WriteTally::reply_failure(CommandRun& run, size_t key_count) const {
  if (!first_failure_.has_value()) return false;
  if (ok_count_ == 0 && !is_unknown_) {
    run.reply().error(failure_text(*first_failure_, text_));
  } else {
    run.reply().error(absl::StrCat("ERR outcome unknown: ", ok_count_, " of ", key_count,
                                   " keys were written before this failure: ", text_));
  }
  return true;
}

}  // namespace skua::kv::gateway
