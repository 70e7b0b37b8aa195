// Commands of memcached over keys that are there: get gets gat gats touch delete incr decr.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_handlers.h"
#include "kvstore/gateway/memcached_numbers.h"
#include "kvstore/gateway/memcached_support.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::memcached_handlers {
namespace {

using Kind = StoreRequest::Kind;

/// VALUE KEY FLAGS LENGTH [VERSION], and the block. Takes the value.
void reply_value(CommandRun& run, std::string_view key, StoreResult&& got, bool with_version) {
  ReplyBytes& out = run.reply_bytes();
  out.append("VALUE ");
  out.append(key);
  out.append(absl::StrCat(" ", got.mark.tag, " ", got.value.size()));
  if (with_version) out.append(absl::StrCat(" ", got.version));
  out.append("\r\n");
  if (got.is_borrowed) {
    out.append(got.value.bytes());
  } else {
    out.append(std::move(got.value));
  }
  out.append("\r\n");
}

/// Adds the values to the reply. False: the client has been told instead why it does not get them.
bool reply_values(CommandRun& run, std::span<const StoreRequest> requests, std::span<StoreResult> results) {
  const MemcachedReply reply(run, false);
  MemcachedCounters& counters = run.gateway().identity.memcached;
  counters.gets.fetch_add(results.size(), std::memory_order_relaxed);
  for (size_t i = 0; i < results.size(); ++i) {
    if (reply.failure(results[i])) return false;
    StoreResult taken = std::move(results[i]);  // given back here, because the reply may have a copy
    hide_hash(taken);
    (taken.ok() ? counters.hits : counters.misses).fetch_add(1, std::memory_order_relaxed);
    if (taken.ok()) reply_value(run, requests[i].key, std::move(taken), run.arg(0).back() == 's');
  }
  if (run.reply_bytes().size() <= kManyValuesBytesMax) return true;
  run.reply_bytes().clear();
  reply.line(memcached_errors::kReplyTooLarge);
  return false;
}

/// Words from `first` on, as GETs of the next keys.
std::vector<StoreRequest> gets_from(const CommandRun& run, size_t first) {
  std::vector<StoreRequest> requests;
  const size_t end = std::min(run.size(), first + kRequestsPerCommandMax);
  for (size_t i = first; i < end; ++i) requests.push_back({.kind = Kind::kGet, .key = run.arg(i), .with_mark = true});
  return requests;
}

/// Of each key that is there and that clients of memcached see. False: the client has been told of a failure.
bool touches_of(const MemcachedReply& reply, std::span<const StoreRequest> looks, std::span<StoreResult> looked,
                const MemcachedExpiry& expiry, std::vector<StoreRequest>& touches) {
  touches.clear();
  for (size_t i = 0; i < looked.size(); ++i) {
    if (reply.failure(looked[i])) return false;
    hide_hash(looked[i]);
    if (looked[i].ok()) touches.push_back(unless_changed(looked[i], memcached_touch(looks[i].key, expiry)));
  }
  return true;
}

/// The keys that somebody else wrote meanwhile, to be looked at again. False: the client has been told of a failure.
bool changed_ones(const MemcachedReply& reply, std::span<const StoreRequest> touches,
                  std::span<const StoreResult> touched, std::vector<StoreRequest>& looks) {
  looks.clear();
  for (size_t i = 0; i < touched.size(); ++i) {
    if (reply.failure(touched[i])) return false;
    if (touched[i].ok()) continue;
    looks.push_back({.kind = Kind::kGet, .key = touches[i].key, .with_mark = true, .drops_value = true});
  }
  return true;
}

void reply_one(CommandRun& run, StoreResult&& got) {
  const StoreRequest request{.key = run.arg(1)};
  if (reply_values(run, {&request, 1}, {&got, 1})) run.reply_bytes().append("END\r\n");
}

}  // namespace

const OneRequest kGetOne{.ask = ask_value, .reply = reply_one};

/// Carried out again, it counts its keys again: they were read again.
CommandTask get(CommandRun& run) {
  for (size_t i = 1; i < run.size(); i += kRequestsPerCommandMax) {
    const std::vector<StoreRequest> requests = gets_from(run, i);
    if (!reply_values(run, requests, co_await run.store_all(requests))) co_return;
  }
  run.reply_bytes().append("END\r\n");
}

/// A time to live is set before the value is read, because setting it gives the key another version. A key that expires
/// at once is read first. Each key is looked at before it is written: a command that does not find a hash must neither
/// let it expire nor remove it.
CommandTask gat(CommandRun& run) {
  const MemcachedReply reply(run, false);
  const std::optional<int64_t> exptime = parse_memcached_i64(run.arg(1));
  if (!exptime.has_value()) co_return reply.line(memcached_errors::kBadExpiry);
  const MemcachedExpiry expiry = memcached_expiry(*exptime, run.now_ms());
  for (size_t i = 2; i < run.size(); i += kRequestsPerCommandMax) {
    const std::vector<StoreRequest> requests = gets_from(run, i);
    run.gateway().identity.memcached.touches.fetch_add(requests.size(), std::memory_order_relaxed);
    if (expiry.is_past && !reply_values(run, requests, co_await run.store_all(requests))) co_return;
    std::vector<StoreRequest> looks = requests;
    for (StoreRequest& look : looks) look.drops_value = true;
    std::vector<StoreRequest> touches;
    while (!looks.empty()) {
      if (!run.may_contest()) {
        run.reply_bytes().clear();
        co_return reply.line(memcached_errors::kChangesTooOften);
      }
      if (!touches_of(reply, looks, co_await run.store_all(looks), expiry, touches)) co_return;
      if (touches.empty()) break;
      if (!changed_ones(reply, touches, co_await run.store_all(touches), looks)) co_return;
    }
    if (!expiry.is_past && !reply_values(run, requests, co_await run.store_all(requests))) co_return;
  }
  run.reply_bytes().append("END\r\n");
}

CommandTask touch(CommandRun& run) {
  const MemcachedReply reply(run, is_noreply(run.arg(run.size() - 1)));
  const std::optional<int64_t> exptime = parse_memcached_i64(run.arg(2));
  if (!exptime.has_value()) co_return reply.line(memcached_errors::kBadExpiry);
  run.gateway().identity.memcached.touches.fetch_add(1, std::memory_order_relaxed);
  const StoreResult touched = co_await run.store(memcached_touch(run.arg(1), memcached_expiry(*exptime, run.now_ms())));
  if (!reply.failure(touched)) reply.line(touched.ok() ? "TOUCHED" : "NOT_FOUND");
}

CommandTask remove(CommandRun& run) {
  const bool is_silent = is_noreply(run.arg(run.size() - 1)) && run.size() > 2;
  const MemcachedReply reply(run, is_silent);
  // Clients of long ago sent a time; only 0 is still taken.
  const size_t words = run.size() - (is_silent ? 1 : 0);
  if (words > 3 || (words == 3 && run.arg(2) != "0")) co_return reply.line(memcached_errors::kBadDelete);
  const StoreResult removed = co_await run.store({.kind = Kind::kRemove, .key = run.arg(1)});
  if (!reply.failure(removed)) reply.line(removed.ok() ? "DELETED" : "NOT_FOUND");
}

}  // namespace skua::kv::gateway::memcached_handlers
