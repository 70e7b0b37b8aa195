// Commands that read values, or change parts of them.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::handlers {
namespace {

using Kind = StoreRequest::Kind;

struct GetexOptions {
  bool persists = false;
  std::optional<TimeForm> expiry;
  size_t expiry_index = 0;  // of the word behind it
};

std::optional<GetexOptions> parse_getex_options(const CommandRun& run) {
  GetexOptions options;
  for (size_t i = 2; i < run.size(); ++i) {
    if (absl::EqualsIgnoreCase(absl_view(run.arg(i)), "persist") && !options.expiry.has_value()) {
      options.persists = true;
      continue;
    }
    const std::optional<TimeForm> expiry = expiry_option(run.arg(i));
    const bool is_known = expiry.has_value() && options.expiry.value_or(*expiry) == *expiry;
    if (!is_known || options.persists || i + 1 == run.size()) return std::nullopt;
    // The same option may come again, as in Redis: the last one counts.
    options.expiry = expiry;
    options.expiry_index = ++i;
  }
  return options;
}

void reply_string(CommandRun& run, StoreResult&& got) {
  if (!reply_not_string(run, got)) reply_value(run, std::move(got));
}

}  // namespace

const OneRequest kGet{.ask = ask_value, .reply = reply_string};

CommandTask mget(CommandRun& run) {
  run.reply().array(run.size() - 1);
  std::vector<StoreRequest> requests;
  for (size_t i = 1; i < run.size(); ++i) {
    requests.push_back({.kind = Kind::kGet, .key = run.arg(i), .with_mark = true});
    if (requests.size() < kRequestsPerCommandMax && i + 1 < run.size()) continue;
    for (StoreResult& got : co_await run.store_all(requests)) {
      if (got.is_failure()) {
        run.reply_bytes().clear();
        reply_failure(run, got);
        co_return;
      }
      StoreResult taken = std::move(got);  // given back here, because the reply may have a copy
      if (taken.mark.row) {
        run.reply().null();  // a hash, as in Redis
      } else {
        reply_value(run, std::move(taken));
      }
    }
    if (run.reply_bytes().size() > kManyValuesBytesMax) {
      run.reply_bytes().clear();
      co_return run.reply().error(errors::kReplyTooLarge);
    }
    requests.clear();
  }
}

CommandTask getdel(CommandRun& run) {
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old = co_await run.store(read_value(run));
    if (reply_not_string(run, old)) co_return;
    const StoreRequest request{.kind = Kind::kRemove, .key = run.arg(1)};
    written = Written::kDone;
    if (old.ok()) written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kDone) reply_value(run, std::move(old));
  }
}

CommandTask getex(CommandRun& run) {
  const std::optional<GetexOptions> options = parse_getex_options(run);
  if (!options.has_value()) co_return run.reply().error(errors::kSyntax);
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old =
        co_await run.store({.kind = Kind::kGet, .key = run.arg(1), .with_ttl = options->persists, .with_mark = true});
    if (reply_not_string(run, old)) co_return;
    // As in Redis the time is looked at only if there is a value.
    std::optional<int64_t> expires_at;
    if (old.ok() && options->expiry.has_value()) {
      expires_at = expiry_arg(run, options->expiry_index, *options->expiry);
      if (!expires_at.has_value()) co_return;
    }
    const bool changes = expires_at.has_value() || (options->persists && old.ttl_ms.has_value());
    StoreRequest request{.kind = Kind::kExpire, .key = run.arg(1)};
    if (expires_at.has_value()) request = expire_at(run, *expires_at);
    written = Written::kDone;
    if (old.ok() && changes) written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kDone) reply_value(run, std::move(old));
  }
}

/// The store's own APPEND does not say how long the value is then. So the length is read first, and the store appends
/// if the value is still the same. That keeps the key's time to live to the millisecond.
CommandTask append(CommandRun& run) {
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    const StoreResult old = co_await run.store(read_mark(run));
    if (reply_not_string(run, old)) co_return;
    const size_t size = old.value_bytes + run.arg(2).size();
    if (size > kValueBytesMax) co_return run.reply().error(errors::kValueTooLarge);
    const StoreRequest request{.kind = Kind::kAppend, .key = run.arg(1), .value = run.arg(2)};
    written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kDone) run.reply().integer(static_cast<int64_t>(size));
  }
}

CommandTask strlen(CommandRun& run) {
  const StoreResult got = co_await run.store(read_mark(run));
  if (!reply_not_string(run, got)) run.reply().integer(static_cast<int64_t>(got.value_bytes));
}

CommandTask getrange(CommandRun& run) {
  const std::optional<int64_t> first = integer_arg(run, 2);
  if (!first.has_value()) co_return;
  const std::optional<int64_t> last = integer_arg(run, 3);
  if (!last.has_value()) co_return;
  const StoreResult got = co_await run.store(read_value(run));
  if (reply_not_string(run, got)) co_return;
  const auto size = static_cast<int64_t>(got.value.size());
  // Below 0: counted from the end. Both below 0 and the wrong way round: nothing, however long the value is.
  const bool is_backward = *first < 0 && *last < 0 && *first > *last;
  const int64_t begin = *first < 0 ? std::max<int64_t>(size + *first, 0) : *first;
  const int64_t end = std::min(*last < 0 ? std::max<int64_t>(size + *last, 0) : *last, size - 1);
  if (is_backward || size == 0 || begin > end) co_return run.reply().bulk(std::string_view());
  run.reply().bulk(got.value.bytes().substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin + 1)));
}

CommandTask setrange(CommandRun& run) {
  const std::optional<int64_t> offset = integer_arg(run, 2);
  if (!offset.has_value()) co_return;
  if (*offset < 0) co_return run.reply().error(errors::kOffsetOutOfRange);
  const std::string_view bytes = run.arg(3);
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    const StoreResult old = co_await run.store(read_value(run));
    if (reply_not_string(run, old)) co_return;
    if (bytes.empty()) co_return run.reply().integer(static_cast<int64_t>(old.value.size()));
    if (static_cast<uint64_t>(*offset) > kValueBytesMax - std::min(bytes.size(), kValueBytesMax)) {
      co_return run.reply().error(errors::kValueTooLarge);
    }
    const auto at = static_cast<size_t>(*offset);
    std::string value(old.value.bytes());
    value.resize(std::max(value.size(), at + bytes.size()));
    value.replace(at, bytes.size(), bytes);
    const StoreRequest request{.kind = Kind::kPut, .key = run.arg(1), .value = value, .keep_ttl = true};
    written = judge_write(run, co_await run.store(unless_changed(old, request)));
    if (written == Written::kDone) run.reply().integer(static_cast<int64_t>(value.size()));
  }
}

}  // namespace skua::kv::gateway::handlers
