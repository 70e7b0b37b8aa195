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

StoreRequest add_of(const CommandRun& run, int64_t delta) {
  return {.kind = Kind::kAdd, .key = run.arg(1), .delta = delta};
}

void reply_sum(CommandRun& run, const StoreResult& sum) {
  if (reply_failure(run, sum)) return;
  if (sum.status == StoreResult::Status::kNotANumber) return run.reply().error(errors::kNotAnInteger);
  if (sum.status == StoreResult::Status::kOverflow) return run.reply().error(errors::kSumOverflow);
  run.reply().integer(sum.number);
}

}  // namespace

CommandTask incr(CommandRun& run) {
  reply_sum(run, co_await run.store(add_of(run, 1)));
}

CommandTask decr(CommandRun& run) {
  reply_sum(run, co_await run.store(add_of(run, -1)));
}

CommandTask incrby(CommandRun& run) {
  const std::optional<int64_t> delta = integer_arg(run, 2);
  if (delta.has_value()) reply_sum(run, co_await run.store(add_of(run, *delta)));
}

CommandTask decrby(CommandRun& run) {
  const std::optional<int64_t> delta = integer_arg(run, 2);
  if (!delta.has_value()) co_return;
  if (*delta == std::numeric_limits<int64_t>::min()) {
    run.reply().error(errors::kDecrementOverflow);
    co_return;
  }
  reply_sum(run, co_await run.store(add_of(run, -*delta)));
}

CommandTask incrbyfloat(CommandRun& run) {
  for (;;) {
    StoreResult old = co_await run.store({.kind = Kind::kGet, .key = run.arg(1)});
    if (reply_failure(run, old)) co_return;
    const std::optional<long double> value = old.ok() ? parse_float(old.value.bytes()) : std::optional(0.0L);
    old.value.reset();  // its memory is not needed while the store writes
    const std::optional<long double> delta = parse_float(run.arg(2));
    if (!value.has_value() || !delta.has_value()) {
      run.reply().error(errors::kNotAFloat);
      co_return;
    }
    const long double sum = *value + *delta;
    if (std::isnan(sum) || std::isinf(sum)) {
      run.reply().error(errors::kFloatSumOverflow);
      co_return;
    }
    const std::string text = format_float(sum);
    const StoreRequest request{.kind = Kind::kPut, .key = run.arg(1), .value = text, .keep_ttl = true};
    const Written written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kAgain) continue;
    if (written == Written::kDone) run.reply().bulk(std::string_view(text));
    co_return;
  }
}

}  // namespace skua::kv::gateway::handlers
