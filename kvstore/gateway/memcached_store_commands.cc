// Commands of memcached that bring a value: set add replace cas append prepend, and ms, which can do all of that.
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_handlers.h"
#include "kvstore/gateway/memcached_numbers.h"
#include "kvstore/gateway/memcached_support.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::memcached_handlers {
namespace {

using Kind = StoreRequest::Kind;
using Status = StoreResult::Status;

/// By the letters that ms has for them in its flag M.
enum class StoreMode : char { kSet = 'S', kAdd = 'E', kReplace = 'R', kAppend = 'A', kPrepend = 'P' };

/// What came of a command, as the classic and as the meta form say it.
struct StoreOutcome {
  std::string_view text;
  std::string_view code;
  friend bool operator==(const StoreOutcome&, const StoreOutcome&) = default;
};
constexpr StoreOutcome kStored{"STORED", "HD"};
constexpr StoreOutcome kNotStored{"NOT_STORED", "NS"};
constexpr StoreOutcome kOtherVersion{"EXISTS", "EX"};
constexpr StoreOutcome kNotFound{"NOT_FOUND", "NF"};

/// A command, whether it came in the classic or in the meta form. Views are of its words.
struct StoreCommand {
  StoreMode mode = StoreMode::kSet;
  std::string_view value;
  bool is_silent = false;
  bool is_meta = false;
  MetaFlags flags;  // of the classic form: tag, expiry and version
};

StoreMode mode_of(std::string_view name) {
  if (name == "add") return StoreMode::kAdd;
  if (name == "replace") return StoreMode::kReplace;
  if (name == "append") return StoreMode::kAppend;
  return name == "prepend" ? StoreMode::kPrepend : StoreMode::kSet;
}

/// 0: there is no flag M.
std::optional<StoreMode> mode_of(char letter) {
  constexpr std::string_view kLetters = "SERAP";
  if (letter == 0) return StoreMode::kSet;
  return kLetters.find(letter) == std::string_view::npos ? std::nullopt : std::optional(StoreMode{letter});
}

/// NAME KEY FLAGS EXPTIME LENGTH [VERSION] [noreply] BLOCK; the parser has looked at the numbers.
StoreCommand read_classic_store(const CommandRun& run) {
  StoreCommand out;
  out.mode = mode_of(run.arg(0));
  out.flags.tag = parse_memcached_u32(run.arg(2)).value_or(0);
  out.flags.expiry = parse_memcached_i64(run.arg(3));
  if (run.arg(0) == "cas") out.flags.version = parse_memcached_u64(run.arg(5));
  out.is_silent = is_noreply(run.arg(run.size() - 2));
  out.value = run.arg(run.size() - 1);
  return out;
}

/// ms KEY LENGTH FLAGS BLOCK. Nothing: the client has been told what is wrong.
std::optional<StoreCommand> read_meta_store(CommandRun& run) {
  StoreCommand out;
  out.is_meta = true;
  const std::string_view error = read_meta_flags(run.words(), 3, run.size() - 1, out.flags);
  const std::optional<StoreMode> mode = mode_of(out.flags.mode);
  if (!error.empty() || !mode.has_value()) {
    MemcachedReply(run, false).line(error.empty() ? memcached_errors::kBadSetMode : error);
    return std::nullopt;
  }
  out.mode = *mode;
  // With `add` memcached does not look at the version.
  if (out.mode == StoreMode::kAdd) out.flags.version.reset();
  out.value = run.arg(run.size() - 1);
  return out;
}

std::optional<StoreCommand> read_store_command(CommandRun& run) {
  return run.arg(0) == "ms" ? read_meta_store(run) : read_classic_store(run);
}

/// `version`: of the new value; 0, which ms shows as well: there is none.
void reply_outcome(CommandRun& run, const StoreCommand& command, const StoreOutcome& outcome, uint64_t version) {
  if (!command.is_meta) return MemcachedReply(run, command.is_silent).line(outcome.text);
  reply_meta(run, command.flags, {.code = outcome.code, .version = version},
             command.flags.is_quiet && outcome == kStored);
}

/// What to ask of the store for a command that does not need the old value.
StoreRequest request_of(const CommandRun& run, const StoreCommand& command) {
  StoreRequest out;
  if (command.mode == StoreMode::kAppend) {
    out = {.kind = Kind::kAppend, .key = run.arg(1), .value = command.value};
  } else {
    out = memcached_put(run.arg(1), command.value, command.flags.tag,
                        memcached_expiry(command.flags.expiry.value_or(0), run.now_ms()));
  }
  if (command.flags.version.has_value()) {
    out.if_version = command.flags.version;
  } else {
    out.if_absent = command.mode == StoreMode::kAdd;
    // REMOVE of an absent key says so by itself.
    out.if_present =
        (command.mode == StoreMode::kReplace && out.kind == Kind::kPut) || command.mode == StoreMode::kAppend;
  }
  out.tells_version = command.flags.wants_version;
  return out;
}

StoreRequest look_at(const CommandRun& run) {
  return {.kind = Kind::kGet, .key = run.arg(1), .with_mark = true, .drops_value = true};
}

/// The key had another version, or is absent: `looked` says which.
StoreOutcome mismatch(const StoreCommand& command, const StoreResult& looked) {
  if (looked.ok()) return kOtherVersion;
  return command.mode == StoreMode::kAppend || command.mode == StoreMode::kPrepend ? kNotStored : kNotFound;
}

}  // namespace

CommandTask store(CommandRun& run) {
  const std::optional<StoreCommand> command = read_store_command(run);
  if (!command.has_value()) co_return;
  const MemcachedReply reply(run, command->is_silent);
  run.gateway().identity.memcached.sets.fetch_add(1, std::memory_order_relaxed);
  const StoreRequest request = request_of(run, *command);
  if (request.kind == Kind::kRemove && request.if_absent) {
    // The key would be there and have expired: nothing is written.
    const StoreResult looked = co_await run.store(look_at(run));
    if (reply.failure(looked)) co_return;
    co_return reply_outcome(run, *command, looked.ok() ? kNotStored : kStored, 0);
  }
  const StoreResult written = co_await run.store(request);
  // The store appends nothing to a hash.
  if (request.kind == Kind::kAppend && written.status == Status::kRefused) {
    const StoreResult looked = co_await run.store(look_at(run));
    if (reply.failure_or_hash(looked)) co_return;
  }
  if (reply.failure(written)) co_return;
  StoreOutcome outcome = kStored;
  if (written.status == Status::kOtherVersion ||
      (written.status == Status::kNotFound && command->flags.version.has_value())) {
    const StoreResult looked = co_await run.store(look_at(run));
    if (reply.failure(looked)) co_return;
    outcome = mismatch(*command, looked);
  } else if (!written.ok()) {
    const bool is_set = command->mode == StoreMode::kSet;  // it removed a key that was absent already
    outcome = is_set ? kStored : kNotStored;
  }
  reply_outcome(run, *command, outcome, written.ok() ? written.version : 0);
}

CommandTask store_prepend(CommandRun& run) {
  const std::optional<StoreCommand> command = read_store_command(run);
  if (!command.has_value()) co_return;
  const MemcachedReply reply(run, command->is_silent);
  run.gateway().identity.memcached.sets.fetch_add(1, std::memory_order_relaxed);
  for (;;) {
    StoreResult old = co_await run.store({.kind = Kind::kGet, .key = run.arg(1), .with_mark = true});
    if (reply.failure_or_hash(old)) co_return;
    const bool is_other = command->flags.version.has_value() && old.version != *command->flags.version;
    if (!old.ok() || is_other) co_return reply_outcome(run, *command, old.ok() ? kOtherVersion : kNotStored, 0);
    if (command->value.size() + old.value.size() > kValueBytesMax) co_return reply.line(memcached_errors::kTooLarge);
    const std::string value = absl::StrCat(absl_view(command->value), absl_view(old.value.bytes()));
    old.value.reset();  // its memory is not needed while the store writes
    const StoreRequest request{
        .kind = Kind::kPut, .key = run.arg(1), .value = value, .mark = old.mark, .keep_ttl = true};
    const StoreResult written = co_await run.store(unless_changed(old, request));
    if (reply.failure(written)) co_return;
    if (written.ok()) co_return reply_outcome(run, *command, kStored, written.version);
    if (!run.may_contest()) co_return reply.line(memcached_errors::kChangesTooOften);
  }
}

}  // namespace skua::kv::gateway::memcached_handlers
