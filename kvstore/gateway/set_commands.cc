// Commands that replace a value.
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::handlers {
namespace {

using Kind = StoreRequest::Kind;

bool is_too_large(CommandRun& run, std::string_view value) {
  return reply_error_if(run, value.size() > kValueBytesMax, errors::kValueTooLarge);
}

/// What SET writes, and when.
struct SetOptions {
  bool if_absent = false;
  bool if_present = false;
  bool returns_old = false;
  bool keeps_ttl = false;
  std::optional<TimeForm> expiry;
  size_t expiry_index = 0;
  std::optional<int64_t> expires_at;  // as `expiry` says

  [[nodiscard]] StoreRequest put(const CommandRun& run) const {
    if (expires_at.has_value()) return put_until(run.arg(1), run.arg(2), *expires_at, run.now_ms());
    return {.kind = Kind::kPut, .key = run.arg(1), .value = run.arg(2), .keep_ttl = keeps_ttl};
  }
};

/// The words behind the value, but for expires_at. Nothing: they make no sense.
std::optional<SetOptions> parse_set_options(const CommandRun& run) {
  SetOptions options;
  for (size_t i = 3; i < run.size(); ++i) {
    const absl::string_view word = absl_view(run.arg(i));
    if (absl::EqualsIgnoreCase(word, "nx") && !options.if_present) {
      options.if_absent = true;
    } else if (absl::EqualsIgnoreCase(word, "xx") && !options.if_absent) {
      options.if_present = true;
    } else if (absl::EqualsIgnoreCase(word, "get")) {
      options.returns_old = true;
    } else if (absl::EqualsIgnoreCase(word, "keepttl") && !options.expiry.has_value()) {
      options.keeps_ttl = true;
    } else if (const auto expiry = expiry_option(run.arg(i)); expiry.has_value() && !options.keeps_ttl &&
                                                              options.expiry.value_or(*expiry) == *expiry &&
                                                              i + 1 < run.size()) {
      // The same option may come again, as in Redis: the last one counts.
      options.expiry = expiry;
      options.expiry_index = ++i;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

/// MSET and MSETNX: keys and values in turn. True: they are not, and the client has been told.
bool reply_bad_pairs(CommandRun& run) {
  if (run.size() % 2 == 0) {
    run.reply().error(wrong_arity_error(run.spec().name));
    return true;
  }
  for (size_t i = 2; i < run.size(); i += 2) {
    if (is_too_large(run, run.arg(i))) return true;
  }
  return false;
}

/// PUTs of MSETNX, each for an absent key. Of a key that comes several times the last value counts.
std::vector<StoreRequest> puts_if_absent(const CommandRun& run) {
  absl::flat_hash_set<std::string_view> seen;
  std::vector<StoreRequest> puts;
  for (size_t i = run.size(); i > 1; i -= 2) {
    if (!seen.insert(run.arg(i - 2)).second) continue;
    puts.push_back({.kind = Kind::kPut, .key = run.arg(i - 2), .value = run.arg(i - 1), .if_absent = true});
  }
  return puts;
}

void reply_put(CommandRun& run, StoreResult&& put) {
  if (!reply_failure(run, put)) run.reply().ok();
}

bool ask_put(const CommandRun& run, StoreRequest& request) {
  if (run.size() != 3 || run.arg(2).size() > kValueBytesMax) return false;
  request.kind = Kind::kPut;
  request.key = run.arg(1);
  request.value = run.arg(2);
  return true;
}

bool ask_puts(const CommandRun& run, StoreRequest& request) {
  if (run.command_count() == 1) return ask_put(run, request);
  request.kind = Kind::kPuts;
  request.puts = &run.words();
  return true;
}

/// A reply for each command of the burst.
void reply_puts(CommandRun& run, StoreResult&& puts) {
  if (run.command_count() == 1) return reply_put(run, std::move(puts));
  auto failed = puts.failed_puts.begin();
  for (uint32_t i = 0; i < run.command_count(); ++i) {
    if (failed != puts.failed_puts.end() && failed->index == i) {
      reply_failure(run, failed->status, failed->text);
      ++failed;
    } else {
      run.reply().ok();
    }
  }
}

/// Nothing: the client has been told why.
std::optional<SetOptions> plan_set(CommandRun& run) {
  std::optional<SetOptions> options = parse_set_options(run);
  if (!options.has_value()) return refuse(run, errors::kSyntax);
  if (options->expiry.has_value()) {
    options->expires_at = expiry_arg(run, options->expiry_index, *options->expiry);
    if (!options->expires_at.has_value()) return std::nullopt;
  }
  if (is_too_large(run, run.arg(2))) return std::nullopt;
  return options;
}

}  // namespace

const OneRequest kSetValue{.ask = ask_put, .reply = reply_put};
const OneRequest kSetBurst{.ask = ask_puts, .reply = reply_puts};

CommandTask set(CommandRun& run) {
  const std::optional<SetOptions> options = plan_set(run);
  if (!options.has_value()) co_return;
  const bool needs_old = options->returns_old || (options->if_absent && options->put(run).kind == Kind::kRemove);
  if (!needs_old) {
    StoreRequest request = options->put(run);
    request.if_absent = options->if_absent;
    request.if_present = options->if_present;
    StoreResult put = co_await run.store(request);
    const bool is_absent = options->if_present && put.status == StoreResult::Status::kNotFound;
    if (put.status == StoreResult::Status::kExists || is_absent) co_return run.reply().null();
    co_return reply_put(run, std::move(put));
  }
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old = co_await run.store({.kind = Kind::kGet,
                                          .key = run.arg(1),
                                          .with_mark = options->returns_old,
                                          .drops_value = !options->returns_old});
    if (reply_not_string(run, old)) co_return;
    const bool is_wanted = old.ok() ? !options->if_absent : !options->if_present;
    const StoreRequest request = options->put(run);
    const bool is_done_already = request.kind == Kind::kRemove && !old.ok();
    written = Written::kDone;
    if (is_wanted && !is_done_already) written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written != Written::kDone) continue;
    if (options->returns_old) co_return reply_value(run, std::move(old));
    if (is_wanted) co_return run.reply().ok();
    run.reply().null();
  }
}

CommandTask setex(CommandRun& run) {
  const std::optional<int64_t> at = expiry_arg(run, 2, time_form(run.spec()));
  if (!at.has_value() || is_too_large(run, run.arg(3))) co_return;
  reply_put(run, co_await run.store(put_until(run.arg(1), run.arg(3), *at, run.now_ms())));
}

CommandTask setnx(CommandRun& run) {
  if (is_too_large(run, run.arg(2))) co_return;
  const StoreResult put =
      co_await run.store({.kind = Kind::kPut, .key = run.arg(1), .value = run.arg(2), .if_absent = true});
  if (!reply_failure(run, put)) run.reply().integer(put.ok() ? 1 : 0);
}

CommandTask mset(CommandRun& run) {
  if (reply_bad_pairs(run)) co_return;
  // Of a key that comes several times the last value counts; the others are not written at all.
  absl::flat_hash_set<std::string_view> seen;
  std::vector<StoreRequest> requests;
  WriteTally tally;
  for (size_t end = run.size(); end > 1; end -= 2) {
    const std::string_view key = run.arg(end - 2);
    const bool is_new = seen.insert(key).second;
    if (is_new && !tally.has_failed()) requests.push_back({.kind = Kind::kPut, .key = key, .value = run.arg(end - 1)});
    const bool is_last = end == 3;
    if (requests.empty() || (requests.size() < kRequestsPerCommandMax && !is_last)) continue;
    for (const StoreResult& result : co_await run.store_all(requests)) tally.add(result);
    requests.clear();
  }
  if (!tally.reply_failure(run, seen.size())) run.reply().ok();
}

CommandTask msetnx(CommandRun& run) {
  if (reply_bad_pairs(run)) co_return;
  const std::vector<StoreRequest> puts = puts_if_absent(run);
  if (puts.size() > kBatchOpsMax) co_return run.reply().error(errors::kTooManyKeysInMsetnx);
  if (!run.is_queued()) {
    const StoreResult done = co_await run.store({.kind = Kind::kBatch, .batch = &puts});
    if (!reply_failure(run, done)) run.reply().integer(done.ok() ? 1 : 0);
    co_return;
  }
  // Inside EXEC all commands become one batch. This code only computes the reply, so the keys may be read one by one.
  for (const StoreRequest& put : puts) {
    const StoreResult old = co_await run.store({.kind = Kind::kGet, .key = put.key, .drops_value = true});
    if (reply_failure(run, old)) co_return;
    if (old.ok()) co_return run.reply().integer(0);
  }
  for (const StoreRequest& put : puts) {
    if (reply_failure(run, co_await run.store(put))) co_return;
  }
  run.reply().integer(1);
}

CommandTask getset(CommandRun& run) {
  if (is_too_large(run, run.arg(2))) co_return;
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old = co_await run.store(read_value(run));
    if (reply_not_string(run, old)) co_return;
    const StoreRequest request{.kind = Kind::kPut, .key = run.arg(1), .value = run.arg(2)};
    written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kDone) reply_value(run, std::move(old));
  }
}

}  // namespace skua::kv::gateway::handlers
