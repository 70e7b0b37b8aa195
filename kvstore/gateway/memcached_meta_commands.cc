// Meta commands of memcached that bring no value: mg md me mn. ms and ma are with the classic commands of their kind.
#include <string>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_handlers.h"
#include "kvstore/gateway/memcached_support.h"

namespace skua::kv::gateway::memcached_handlers {
namespace {

using Kind = StoreRequest::Kind;

void reply_got(CommandRun& run, const MetaFlags& flags, StoreResult&& got) {
  if (!got.ok()) return reply_meta(run, flags, {.code = "EN"}, flags.is_quiet);
  const std::string code = flags.wants_value ? absl::StrCat("VA ", got.value_bytes) : "HD";
  reply_meta(run, flags, {.code = code, .got = &got, .ttl_ms = got.ttl_ms, .version = got.version}, false);
  if (!flags.wants_value) return;
  run.reply_bytes().append(std::move(got.value));
  run.reply_bytes().append("\r\n");
}

}  // namespace

CommandTask meta_get(CommandRun& run) {
  const MemcachedReply reply(run, false);
  MetaFlags flags;
  const std::string_view error = read_meta_flags(run.words(), 2, run.size(), flags);
  if (!error.empty() || flags.expiry_of_new.has_value()) {
    co_return reply.line(error.empty() ? memcached_errors::kInvalidFlag : error);
  }
  const MemcachedExpiry expiry = memcached_expiry(flags.expiry.value_or(0), run.now_ms());
  const StoreRequest touch = memcached_touch(run.arg(1), expiry);
  MemcachedCounters& counters = run.gateway().identity.memcached;
  counters.gets.fetch_add(1, std::memory_order_relaxed);
  if (flags.expiry.has_value()) counters.touches.fetch_add(1, std::memory_order_relaxed);
  StoreResult got;
  for (;;) {
    got = co_await run.store({.kind = Kind::kGet,
                              .key = run.arg(1),
                              .with_ttl = flags.wants_ttl,
                              .with_mark = true,
                              .drops_value = !flags.wants_value});
    if (reply.failure(got)) co_return;
    hide_hash(got);
    if (!got.ok() || !flags.expiry.has_value()) break;
    // Only what was read gets the time: a command that does not find a hash must neither let it expire nor remove it.
    const StoreResult touched = co_await run.store(unless_changed(got, touch));
    if (reply.failure(touched)) co_return;
    if (touched.ok()) {
      got.ttl_ms = memcached_ttl_ms(expiry);
      if (!expiry.is_past) got.version = touched.version;
      break;
    }
    if (!run.may_contest()) co_return reply.line(memcached_errors::kChangesTooOften);
  }
  (got.ok() ? counters.hits : counters.misses).fetch_add(1, std::memory_order_relaxed);
  reply_got(run, flags, std::move(got));
}

CommandTask meta_delete(CommandRun& run) {
  const MemcachedReply reply(run, false);
  MetaFlags flags;
  const std::string_view error = read_meta_flags(run.words(), 2, run.size(), flags);
  if (!error.empty()) {
    co_return reply.line(error == memcached_errors::kLongOpaque ? error : memcached_errors::kInvalidOrDuplicateFlag);
  }
  const StoreResult removed =
      co_await run.store({.kind = Kind::kRemove, .key = run.arg(1), .if_version = flags.version});
  if (reply.failure(removed)) co_return;
  std::string_view code = removed.ok() ? "HD" : "NF";
  if (removed.status == StoreResult::Status::kOtherVersion) {
    const StoreResult looked = co_await run.store({.kind = Kind::kGet, .key = run.arg(1), .drops_value = true});
    if (reply.failure(looked)) co_return;
    if (looked.ok()) code = "EX";
  }
  reply_meta(run, flags, {.code = code}, flags.is_quiet && removed.ok());
}

/// What the store knows of a key: the seconds until it expires, its version, and the bytes of its value.
CommandTask meta_debug(CommandRun& run) {
  const MemcachedReply reply(run, false);
  MetaFlags flags;
  if (!read_meta_flags(run.words(), 2, run.size(), flags).empty()) co_return reply.line(memcached_errors::kBadFormat);
  const StoreResult got =
      co_await run.store({.kind = Kind::kGet, .key = run.arg(1), .with_ttl = true, .drops_value = true});
  if (reply.failure(got)) co_return;
  if (!got.ok()) co_return reply.line("EN");
  const std::string key = meta_line({.code = ""}, {.words = {"k"}, .is_key_encoded = flags.is_key_encoded}, run.arg(1));
  reply.line(absl::StrCat("ME ", key.substr(2, key.size() - (flags.is_key_encoded ? 4 : 2)),
                          " exp=", ttl_seconds(got.ttl_ms), " cas=", got.version, " size=", got.value_bytes));
}

CommandTask meta_noop(CommandRun& run) {
  co_return MemcachedReply(run, false).line("MN");
}

}  // namespace skua::kv::gateway::memcached_handlers
