// Commands of memcached that the gateway answers by itself.
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/authentication.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_handlers.h"
#include "kvstore/gateway/memcached_line.h"
#include "kvstore/gateway/memcached_numbers.h"
#include "kvstore/gateway/memcached_support.h"
#include "kvstore/gateway/table_flush.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::memcached_handlers {
namespace {

uint64_t count_of(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

std::string_view reply_to(Authenticated authenticated) {
  if (authenticated == Authenticated::kYes) return "STORED";
  const bool is_busy = authenticated == Authenticated::kBusy;
  return is_busy ? memcached_errors::kTooManyAuthenticate : memcached_errors::kAuthenticationFailed;
}

}  // namespace

/// set ANYTHING 0 0 LENGTH, and the block is "NAME PASSWORD". As in memcached, noreply counts for nothing.
CommandTask authenticate(CommandRun& run) {
  const std::vector<std::string_view> words = split_memcached_line(run.arg(run.size() - 1));
  if (words.size() < 2) co_return MemcachedReply(run, false).line(memcached_errors::kBadToken);
  const std::shared_ptr<const ClientUser> user = user_named(run, words[0]);
  const StoreResult verdict = co_await run.store(password_request(user, words[1]));
  MemcachedReply(run, false).line(reply_to(gateway::authenticate(run, words[0], user, verdict)));
}

CommandTask version(CommandRun& run) {
  co_return MemcachedReply(run, false).line(absl::StrCat("VERSION ", absl_view(kMemcachedVersion)));
}

/// What the gateway writes to its log does not depend on clients.
CommandTask verbosity(CommandRun& run) {
  const MemcachedReply reply(run, is_noreply(run.arg(run.size() - 1)));
  co_return reply.line(parse_memcached_u32(run.arg(1)).has_value() ? "OK" : memcached_errors::kBadFormat);
}

CommandTask stats(CommandRun& run) {
  const MemcachedReply reply(run, false);
  if (run.size() > 1) co_return reply.line(memcached_errors::kUnknown);
  const auto stat = [&](std::string_view name, const auto& value) {
    reply.line(absl::StrCat("STAT ", absl_view(name), " ", value));
  };
  const GatewayIdentity& identity = run.gateway().identity;
  const MemcachedCounters& counters = identity.memcached;
  stat("pid", getpid());
  stat("uptime", (run.now_ms() - identity.started_ms) / 1000);
  stat("time", run.now_ms() / 1000);
  stat("version", absl_view(kMemcachedVersion));
  stat("skua_version", identity.skua_version);
  stat("pointer_size", 64);
  stat("max_connections", identity.connections_max);
  stat("curr_connections", count_of(identity.connections_now));
  stat("total_connections", count_of(identity.connections_received));
  stat("rejected_connections", count_of(identity.connections_refused));
  stat("cmd_get", count_of(counters.gets));
  stat("cmd_set", count_of(counters.sets));
  stat("cmd_touch", count_of(counters.touches));
  stat("get_hits", count_of(counters.hits));
  stat("get_misses", count_of(counters.misses));
  stat("threads", identity.threads);
  reply.line("END");
}

/// A table may be other people's as well: what a cluster has stored is forgotten by one word only where the operator
/// has allowed that.
CommandTask flush_all(CommandRun& run) {
  const bool is_silent = is_noreply(run.arg(run.size() - 1));
  const MemcachedReply reply(run, is_silent);
  const size_t words = run.size() - (is_silent ? 1 : 0);
  if (!run.gateway().identity.allows_flush) co_return reply.line(memcached_errors::kNoFlush);
  const std::optional<int64_t> delay_s = words > 1 ? parse_memcached_i64(run.arg(1)) : 0;
  if (!delay_s.has_value() || *delay_s > 0) {
    co_return reply.line(delay_s.has_value() ? memcached_errors::kNoFlushLater : memcached_errors::kBadExpiry);
  }
  TableFlush flushed;
  while (flushed.has_more()) {
    const StoreResult page = co_await run.store(flushed.page());
    if (reply.failure(page)) co_return;
    flushed.take(page);
    if (flushed.removals().empty()) continue;
    flushed.add_removed(co_await run.store_all(flushed.removals()));
    if (flushed.tally().has_failed()) co_return reply.line(memcached_errors::kFlushedInPart);
  }
  reply.line("OK");
}

CommandTask quit(CommandRun& run) {
  run.session().is_ending = true;
  co_return;
}

}  // namespace skua::kv::gateway::memcached_handlers
