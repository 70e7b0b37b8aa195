// Commands of memcached that the gateway answers by itself.
#include <unistd.h>

#include <memory>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/authentication.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_handlers.h"
#include "kvstore/gateway/memcached_line.h"
#include "kvstore/gateway/memcached_numbers.h"
#include "kvstore/gateway/memcached_support.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::memcached_handlers {
namespace {

uint64_t count_of(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

std::string_view reply_to(Authenticated authenticated) {
  switch (authenticated) {
    case Authenticated::kYes: return "STORED";
    case Authenticated::kBusy: return memcached_errors::kTooManyAuthenticate;
    case Authenticated::kNo: break;
  }
  return memcached_errors::kAuthenticationFailed;
}

}  // namespace

/// set ANYTHING 0 0 LENGTH, and the block is "NAME PASSWORD". As in memcached, noreply counts for nothing.
CommandTask authenticate(CommandRun& run) {
  const std::vector<std::string_view> words = split_memcached_line(run.arg(run.size() - 1));
  if (words.size() < 2) {
    MemcachedReply(run, false).line(memcached_errors::kBadToken);
    co_return;
  }
  const std::shared_ptr<const ClientUser> user = user_named(run, words[0]);
  const StoreResult verdict = co_await run.store(password_request(user, words[1]));
  MemcachedReply(run, false).line(reply_to(gateway::authenticate(run, words[0], user, verdict)));
}

CommandTask version(CommandRun& run) {
  MemcachedReply(run, false).line(absl::StrCat("VERSION ", absl_view(kMemcachedVersion)));
  co_return;
}

/// What the gateway writes to its log does not depend on clients.
CommandTask verbosity(CommandRun& run) {
  const MemcachedReply reply(run, is_noreply(run.arg(run.size() - 1)));
  reply.line(parse_memcached_u32(run.arg(1)).has_value() ? "OK" : memcached_errors::kBadFormat);
  co_return;
}

CommandTask stats(CommandRun& run) {
  const MemcachedReply reply(run, false);
  if (run.size() > 1) {
    reply.line(memcached_errors::kUnknown);
    co_return;
  }
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

/// A table may be other people's as well, and what a cluster has stored is not to be forgotten by one word.
CommandTask flush_all(CommandRun& run) {
  MemcachedReply(run, is_noreply(run.arg(run.size() - 1))).line(memcached_errors::kNoFlush);
  co_return;
}

CommandTask quit(CommandRun& run) {
  run.session().is_ending = true;
  co_return;
}

}  // namespace skua::kv::gateway::memcached_handlers
