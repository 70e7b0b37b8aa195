// Values of memcached that are numbers: incr, decr and ma. A number is unsigned and of 64 bits; adding wraps, and
// subtracting ends at 0. A number that became shorter is filled up with blanks, as in memcached.
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_handlers.h"
#include "kvstore/gateway/memcached_numbers.h"
#include "kvstore/gateway/memcached_support.h"

namespace skua::kv::gateway::memcached_handlers {
namespace {

using Kind = StoreRequest::Kind;

/// A command, whether it came in the classic or in the meta form.
struct SumCommand {
  bool adds = true;
  bool is_silent = false;
  bool is_meta = false;
  MetaFlags flags;
};

/// NAME KEY DELTA [noreply]. Nothing: the client has been told what is wrong; the same below.
std::optional<SumCommand> read_classic_sum(CommandRun& run) {
  SumCommand out;
  out.adds = run.arg(0) == "incr";
  out.is_silent = is_noreply(run.arg(run.size() - 1));
  const std::optional<uint64_t> delta = parse_memcached_u64(run.arg(2));
  if (!delta.has_value()) {
    MemcachedReply(run, out.is_silent).line(memcached_errors::kBadDelta);
    return std::nullopt;
  }
  out.flags.delta = *delta;
  return out;
}

/// ma KEY FLAGS
std::optional<SumCommand> read_meta_sum(CommandRun& run) {
  SumCommand out;
  out.is_meta = true;
  std::string_view error = read_meta_flags(run.words(), 2, run.size(), out.flags);
  if (!error.empty() && error != memcached_errors::kLongOpaque) error = memcached_errors::kInvalidOrDuplicateFlag;
  const char mode = out.flags.mode;
  out.adds = mode == 0 || mode == 'I' || mode == '+';
  if (!out.adds && mode != 'D' && mode != '-' && error.empty()) error = memcached_errors::kBadSumMode;
  if (error.empty()) return out;
  MemcachedReply(run, false).line(error);
  return std::nullopt;
}

uint64_t sum_of(const SumCommand& command, uint64_t before) {
  const uint64_t delta = command.flags.delta;
  if (command.adds) return before + delta;  // wraps
  return before > delta ? before - delta : 0;
}

/// `written`: what the store said of the new value. As in memcached, q does not hide that a key was made.
void reply_number(CommandRun& run, const SumCommand& command, uint64_t number, const StoreResult& written,
                  std::optional<uint64_t> ttl_ms, bool is_new) {
  const std::string digits = absl::StrCat(number);
  if (!command.is_meta) return MemcachedReply(run, command.is_silent).line(digits);
  const bool is_silent = command.flags.is_quiet && !is_new;
  const std::string code = command.flags.wants_value ? absl::StrCat("VA ", digits.size()) : "HD";
  reply_meta(run, command.flags, {.code = code, .got = &written, .ttl_ms = ttl_ms, .version = written.version},
             is_silent);
  if (command.flags.wants_value) MemcachedReply(run, is_silent).line(digits);
}

void reply_absent(CommandRun& run, const SumCommand& command) {
  if (!command.is_meta) return MemcachedReply(run, command.is_silent).line("NOT_FOUND");
  reply_meta(run, command.flags, {.code = "NF"}, false);
}

}  // namespace

CommandTask sum(CommandRun& run) {
  const std::optional<SumCommand> command = run.arg(0) == "ma" ? read_meta_sum(run) : read_classic_sum(run);
  if (!command.has_value()) co_return;
  const MetaFlags& flags = command->flags;
  const MemcachedReply reply(run, command->is_silent);
  do {
    StoreResult old =
        co_await run.store({.kind = Kind::kGet, .key = run.arg(1), .with_ttl = flags.wants_ttl, .with_mark = true});
    if (reply.failure_or_hash(old)) co_return;
    if (!old.ok() && !flags.expiry_of_new.has_value()) co_return reply_absent(run, *command);
    if (old.ok() && flags.version.has_value() && old.version != *flags.version) {
      co_return reply_meta(run, flags, {.code = "EX"}, false);
    }
    const bool is_short = old.value_bytes <= kMemcachedNumberBytesMax;
    const std::optional<uint64_t> before = !old.ok()  ? 0
                                           : is_short ? parse_memcached_u64(old.value.bytes())
                                                      : std::nullopt;
    if (!before.has_value()) co_return reply.line(memcached_errors::kNotANumber);
    const uint64_t number = old.ok() ? sum_of(*command, *before) : flags.initial;
    std::string text = absl::StrCat(number);
    if (old.ok() && text.size() < old.value_bytes) text.resize(old.value_bytes, ' ');
    old.value.reset();  // its memory is not needed while the store writes
    StoreRequest request{.kind = Kind::kPut, .key = run.arg(1), .value = text, .mark = old.mark, .keep_ttl = true};
    std::optional<uint64_t> ttl_ms = old.ttl_ms;
    // As in memcached a new key takes T as well, and the last of the two counts; T is usually alone.
    const std::optional<int64_t> exptime = old.ok() || flags.expiry.has_value() ? flags.expiry : flags.expiry_of_new;
    if (exptime.has_value()) {
      const MemcachedExpiry expiry = memcached_expiry(*exptime, run.now_ms());
      request = memcached_put(run.arg(1), text, old.mark.tag, expiry);
      ttl_ms = memcached_ttl_ms(expiry);
    }
    const bool is_nothing = request.kind == Kind::kRemove && !old.ok();
    StoreResult written;
    if (!is_nothing) written = co_await run.store(unless_changed(old, request));
    if (reply.failure(written)) co_return;
    if (written.ok()) co_return reply_number(run, *command, number, written, ttl_ms, !old.ok());
  } while (run.may_contest());
  reply.line(memcached_errors::kChangesTooOften);
}

}  // namespace skua::kv::gateway::memcached_handlers
