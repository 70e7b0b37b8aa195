// Values that are numbers.
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/redis_numbers.h"

namespace skua::kv::gateway::handlers {
namespace {

using Kind = StoreRequest::Kind;

/// What to add: the third word or 1, or the opposite. Nothing: the client has been told what is wrong.
std::optional<int64_t> delta_of(CommandRun& run) {
  const bool subtracts = run.spec().has(kSubtracts);
  if (run.size() == 2) return subtracts ? -1 : 1;
  const std::optional<int64_t> number = integer_arg(run, 2);
  if (!number.has_value() || !subtracts) return number;
  if (*number == std::numeric_limits<int64_t>::min()) return refuse(run, errors::kDecrementOverflow);
  return -*number;
}

}  // namespace

/// The store says only that the value is no number; a hash is none, either.
CommandTask incr(CommandRun& run) {
  const std::optional<int64_t> delta = delta_of(run);
  if (!delta.has_value()) co_return;
  const StoreResult sum = co_await run.store({.kind = Kind::kAdd, .key = run.arg(1), .delta = *delta});
  if (reply_failure(run, sum)) co_return;
  if (sum.status == StoreResult::Status::kOverflow) co_return run.reply().error(errors::kSumOverflow);
  if (sum.status != StoreResult::Status::kNotANumber) co_return run.reply().integer(sum.number);
  const StoreResult looked = co_await run.store(read_mark(run));
  if (!reply_not_string(run, looked)) run.reply().error(errors::kNotAnInteger);
}

CommandTask incrbyfloat(CommandRun& run) {
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old = co_await run.store(read_value(run));
    if (reply_not_string(run, old)) co_return;
    const std::optional<long double> value = old.ok() ? parse_float(old.value.bytes()) : std::optional(0.0L);
    old.value.reset();  // its memory is not needed while the store writes
    const std::optional<long double> delta = parse_float(run.arg(2));
    if (!value.has_value() || !delta.has_value()) co_return run.reply().error(errors::kNotAFloat);
    const long double sum = *value + *delta;
    if (std::isnan(sum) || std::isinf(sum)) co_return run.reply().error(errors::kFloatSumOverflow);
    const std::string text = format_float(sum);
    const StoreRequest request{.kind = Kind::kPut, .key = run.arg(1), .value = text, .keep_ttl = true};
    written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kDone) run.reply().bulk(std::string_view(text));
  }
}

}  // namespace skua::kv::gateway::handlers
