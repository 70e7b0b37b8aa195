#include "kvstore/gateway/command_table.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/redis_numbers.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

constexpr uint32_t kReadFast = kReads | kFast;
constexpr uint32_t kWriteFast = kWrites | kFast;
constexpr uint32_t kLocalFast = kLocal | kFast;

// name, arity, flags, first key, last key, step, handler, one request
constexpr auto kCommands = std::to_array<CommandSpec>({
    {"append", 3, kWriteFast, 1, 1, 1, handlers::append},
    {"auth", -2, kLocalFast | kNotInMulti | kNoUser, 0, 0, 0, handlers::auth},
    {"client", -2, kLocal | kHasSubcommands, 0, 0, 0, nullptr},
    {"client|getname", 2, kLocal, 0, 0, 0, handlers::client_getname},
    {"client|id", 2, kLocal, 0, 0, 0, handlers::client_id},
    {"client|info", 2, kLocal, 0, 0, 0, handlers::client_info},
    {"client|setinfo", 4, kLocal, 0, 0, 0, handlers::client_setinfo},
    {"client|setname", 3, kLocal | kNotInMulti, 0, 0, 0, handlers::client_setname},
    {"command", -1, kLocal | kHasSubcommands, 0, 0, 0, handlers::command},
    {"command|count", 2, kLocal, 0, 0, 0, handlers::command_count},
    {"command|docs", -2, kLocal, 0, 0, 0, handlers::command_docs},
    {"command|info", -2, kLocal, 0, 0, 0, handlers::command_info},
    {"config", -2, kLocal | kHasSubcommands, 0, 0, 0, nullptr},
    {"config|get", -3, kLocal, 0, 0, 0, handlers::config_get},
    {"dbsize", 1, kWholeTable | kNotInMulti, 0, 0, 0, handlers::dbsize},
    {"decr", 2, kWriteFast | kSubtracts, 1, 1, 1, handlers::incr},
    {"decrby", 3, kWriteFast | kSubtracts, 1, 1, 1, handlers::incr},
    {"del", -2, kWrites, 1, -1, 1, handlers::del},
    {"discard", 1, kLocalFast | kNotQueued, 0, 0, 0, handlers::discard},
    {"echo", 2, kLocalFast, 0, 0, 0, handlers::echo},
    {"exec", 1, kPrepares | kOrdersKeys | kHoldsValues | kNotQueued, 0, 0, 0, handlers::exec},
    {"exists", -2, kReadFast, 1, -1, 1, handlers::exists},
    {"expire", -3, kWriteFast, 1, 1, 1, handlers::expire},
    {"expireat", -3, kWriteFast | kTimeOfDay, 1, 1, 1, handlers::expire},
    {"expiretime", 2, kReadFast | kTimeOfDay, 1, 1, 1, handlers::ttl},
    {"flushall", -1, kWrites | kWholeTable | kAllDatabases | kNotInMulti, 0, 0, 0, handlers::flush},
    {"flushdb", -1, kWrites | kWholeTable | kNotInMulti, 0, 0, 0, handlers::flush},
    {"get", 2, kReadFast, 1, 1, 1, nullptr, &handlers::kGet},
    {"getdel", 2, kWriteFast | kHoldsValues | kGivesValues, 1, 1, 1, handlers::getdel},
    {"getex", -2, kWriteFast | kHoldsValues | kGivesValues, 1, 1, 1, handlers::getex},
    {"getrange", 4, kReads, 1, 1, 1, handlers::getrange},
    {"getset", 3, kWriteFast | kHoldsValues | kGivesValues, 1, 1, 1, handlers::getset},
    {"hdel", -3, kWriteFast | kHoldsValues, 1, 1, 1, handlers::hdel},
    {"hello", -1, kLocalFast | kNotInMulti | kNoUser, 0, 0, 0, handlers::hello},
    {"hexists", 3, kReadFast, 1, 1, 1, handlers::hexists},
    {"hget", 3, kReadFast, 1, 1, 1, handlers::hget},
    {"hgetall", 2, kReads | kFieldNames | kFieldValues, 1, 1, 1, handlers::hgetall},
    {"hincrby", 4, kWriteFast, 1, 1, 1, handlers::hincrby},
    {"hincrbyfloat", 4, kWriteFast, 1, 1, 1, handlers::hincrbyfloat},
    {"hkeys", 2, kReads | kFieldNames, 1, 1, 1, handlers::hgetall},
    {"hlen", 2, kReadFast, 1, 1, 1, handlers::hlen},
    {"hmget", -3, kReadFast, 1, 1, 1, handlers::hmget},
    {"hmset", -4, kWriteFast, 1, 1, 1, handlers::hset},
    {"hscan", -3, kReads, 1, 1, 1, handlers::hscan},
    {"hset", -4, kWriteFast, 1, 1, 1, handlers::hset},
    {"hsetnx", 4, kWriteFast, 1, 1, 1, handlers::hsetnx},
    {"hstrlen", 3, kReadFast, 1, 1, 1, handlers::hstrlen},
    {"hvals", 2, kReads | kFieldValues, 1, 1, 1, handlers::hgetall},
    {"incr", 2, kWriteFast, 1, 1, 1, handlers::incr},
    {"incrby", 3, kWriteFast, 1, 1, 1, handlers::incr},
    {"incrbyfloat", 3, kWriteFast, 1, 1, 1, handlers::incrbyfloat},
    {"info", -1, kLocal, 0, 0, 0, handlers::info},
    {"keys", 2, kWholeTable | kNotInMulti, 0, 0, 0, handlers::keys},
    {"mget", -2, kReadFast | kHoldsValues, 1, -1, 1, handlers::mget},
    {"mset", -3, kWrites, 1, -1, 2, handlers::mset},
    {"msetnx", -3, kWrites, 1, -1, 2, handlers::msetnx},
    {"multi", 1, kLocalFast | kNotQueued, 0, 0, 0, handlers::multi},
    {"persist", 2, kWriteFast, 1, 1, 1, handlers::persist},
    {"pexpire", -3, kWriteFast | kMilliseconds, 1, 1, 1, handlers::expire},
    {"pexpireat", -3, kWriteFast | kMilliseconds | kTimeOfDay, 1, 1, 1, handlers::expire},
    {"pexpiretime", 2, kReadFast | kMilliseconds | kTimeOfDay, 1, 1, 1, handlers::ttl},
    {"ping", -1, kLocalFast, 0, 0, 0, handlers::ping},
    {"psetex", 4, kWrites | kMilliseconds, 1, 1, 1, handlers::setex},
    {"pttl", 2, kReadFast | kMilliseconds, 1, 1, 1, handlers::ttl},
    {"quit", -1, kLocalFast | kNotQueued | kNoUser, 0, 0, 0, handlers::quit},
    {"randomkey", 1, kWholeTable | kNotInMulti, 0, 0, 0, handlers::randomkey},
    {"reset", 1, kLocalFast | kNotQueued | kNoUser, 0, 0, 0, handlers::reset},
    {"scan", -2, kWholeTable | kNotInMulti, 0, 0, 0, handlers::scan},
    {"select", 2, kLocalFast | kNotInMulti, 0, 0, 0, handlers::select},
    {"set", -3, kWrites | kHoldsValues | kGivesValues, 1, 1, 1, handlers::set, &handlers::kSetValue},
    {"setex", 4, kWrites, 1, 1, 1, handlers::setex},
    {"setnx", 3, kWriteFast, 1, 1, 1, handlers::setnx},
    {"setrange", 4, kWrites | kHoldsValues, 1, 1, 1, handlers::setrange},
    {"strlen", 2, kReadFast, 1, 1, 1, handlers::strlen},
    {"time", 1, kLocalFast, 0, 0, 0, handlers::time},
    {"ttl", 2, kReadFast, 1, 1, 1, handlers::ttl},
    {"type", 2, kReadFast, 1, 1, 1, handlers::type},
    {"unlink", -2, kWriteFast, 1, -1, 1, handlers::del},
    {"unwatch", 1, kLocalFast, 0, 0, 0, handlers::unwatch},
    {"watch", -2, kFast | kPrepares | kOrdersKeys | kNotQueued, 1, -1, 1, handlers::watch},
});

constexpr size_t kNameBytesMax = 32;
/// A power of two, and many times the number of commands: most names find their command at once.
constexpr size_t kSlots = 512;
static_assert(kCommands.size() * 4 <= kSlots);
static_assert(std::ranges::is_sorted(kCommands, {}, &CommandSpec::name));

/// The same for upper and lower case.
constexpr size_t slot_of(std::string_view name) {
  constexpr unsigned kLowerCase = 0x20;
  uint32_t hash = 0;
  for (const char byte : name) hash = hash * 31 + (static_cast<unsigned char>(byte) | kLowerCase);
  return (hash ^ (hash >> 9)) % kSlots;
}

/// A hash table of the commands: their positions and 1; 0: the slot is empty. One that is taken sends to the next.
constexpr auto kSlotTable = [] {
  std::array<uint8_t, kSlots> table{};
  static_assert(kCommands.size() < UINT8_MAX);
  for (size_t i = 0; i < kCommands.size(); ++i) {
    size_t slot = slot_of(kCommands[i].name);
    while (table[slot] != 0) slot = (slot + 1) % kSlots;
    table[slot] = static_cast<uint8_t>(i + 1);
  }
  return table;
}();
/// What a word takes besides its bytes: its end, its hash, its place in the tables of hazards and of a handler.
constexpr size_t kWordOverheadBytes = 64;
/// Bytes of a name, and of all arguments together, that an error shows.
constexpr size_t kShownBytesMax = 128;

/// As C prints it: up to a zero byte.
std::string_view shown(std::string_view text, size_t bytes_max) {
  return text.substr(0, std::min(text.find('\0'), bytes_max));
}

std::string unknown_command_error(const CommandArguments& words) {
  std::string arguments;
  for (size_t i = 1; i < words.size() && arguments.size() < kShownBytesMax; ++i) {
    absl::StrAppend(&arguments, "'", absl_view(shown(words[i], kShownBytesMax - arguments.size())), "' ");
  }
  return absl::StrCat("ERR unknown command '", absl_view(shown(words[0], kShownBytesMax)),
                      "', with args beginning with: ", arguments);
}

std::string unknown_subcommand_error(const CommandArguments& words) {
  return absl::StrCat("ERR unknown subcommand '", absl_view(shown(words[1], kShownBytesMax)), "'. Try ",
                      absl::AsciiStrToUpper(absl_view(words[0])), " HELP.");
}

}  // namespace

std::span<const CommandSpec> all_commands() {
  return kCommands;
}

const CommandSpec* find_command(std::string_view name) {
  if (name.size() > kNameBytesMax) return nullptr;
  for (size_t slot = slot_of(name); kSlotTable[slot] != 0; slot = (slot + 1) % kSlots) {
    const CommandSpec& spec = kCommands[kSlotTable[slot] - 1U];
    if (absl::EqualsIgnoreCase(absl_view(spec.name), absl_view(name))) return &spec;
  }
  return nullptr;
}

bool holds_values(const CommandSpec& spec, const CommandArguments& words) {
  if (!spec.has(kHoldsValues)) return false;
  if (spec.handler == handlers::hdel) return words.size() > 2 + kFieldsMax;  // of so many names the hash is read
  if (spec.handler != handlers::set) return true;
  for (size_t i = 3; i < words.size(); ++i) {
    if (absl::EqualsIgnoreCase(absl_view(words[i]), "get")) return true;
  }
  return false;
}

size_t memory_bytes(const CommandSpec& spec, const CommandArguments& words) {
  const size_t bytes = words.byte_count() + words.size() * kWordOverheadBytes;
  // The words, and an edit or the names as a request has them.
  const bool is_encoded =
      spec.handler == handlers::hset || spec.handler == handlers::hdel || spec.handler == handlers::hmget;
  if (is_encoded) return 2 * bytes;
  if (spec.handler != handlers::setrange) return bytes;
  const int64_t offset = parse_integer(words[2]).value_or(0);
  const size_t room = kValueBytesMax - std::min(words[3].size(), kValueBytesMax);
  // A value that would be too large is refused, and nothing makes no value.
  const bool is_made = offset >= 0 && static_cast<uint64_t>(offset) <= room && !words[3].empty();
  return bytes + (is_made ? static_cast<size_t>(offset) : 0);
}

std::string wrong_arity_error(std::string_view command) {
  return absl::StrCat("ERR wrong number of arguments for '", absl_view(command), "' command");
}

FoundCommand find_command(const CommandArguments& words) {
  const CommandSpec* spec = find_command(words[0]);
  if (spec == nullptr || spec->is_subcommand()) {
    const std::string name = absl::AsciiStrToLower(absl_view(words[0]));
    return {.error = unknown_command_error(words), .is_http = name == "post" || name == "host:"};
  }
  if (words.size() > 1 && spec->has(kHasSubcommands)) {
    const std::string full = absl::StrCat(absl_view(words[0]), "|", absl_view(words[1]));
    spec = words[1].size() <= kNameBytesMax ? find_command(full) : nullptr;
    if (spec == nullptr) return {.error = unknown_subcommand_error(words)};
  }
  const bool fits_arity = spec->fits(words.size());
  if (!fits_arity && spec->handler == handlers::exec) {
    return {.error = std::string(errors::kExecArity), .ends_transaction = true};
  }
  if (!fits_arity || !spec->can_run()) return {.error = wrong_arity_error(spec->name)};
  return {.spec = spec};
}

}  // namespace skua::kv::gateway
