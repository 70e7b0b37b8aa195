#include "kvstore/gateway/memcached_protocol.h"

#include <algorithm>
#include <array>
#include <functional>

#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_handlers.h"
#include "kvstore/gateway/memcached_line.h"

namespace skua::kv::gateway {
namespace {

constexpr size_t kAny = SIZE_MAX;

/// A command, and how many words it may have, with its name and its block.
struct MemcachedCommand {
  CommandSpec spec;
  size_t words_min;
  size_t words_max;
};

namespace h = memcached_handlers;

// name, arity (the limits stand behind), flags, first key, last key, step, handler
constexpr auto kMemcachedCommands = std::to_array<MemcachedCommand>({
    {{"add", -1, kWrites, 1, 1, 1, h::store}, 6, 7},
    {{"append", -1, kWrites, 1, 1, 1, h::store}, 6, 7},
    {{"cas", -1, kWrites, 1, 1, 1, h::store}, 7, 8},
    {{"decr", -1, kWrites, 1, 1, 1, h::sum}, 3, 4},
    {{"delete", -1, kWrites, 1, 1, 1, h::remove}, 2, 4},
    {{"flush_all", -1, kWrites | kWholeTable, 0, 0, 0, h::flush_all}, 1, 3},
    {{"gat", -1, kWrites | kHoldsValues | kGivesValues, 2, -1, 1, h::gat}, 3, kAny},
    {{"gats", -1, kWrites | kHoldsValues | kGivesValues, 2, -1, 1, h::gat}, 3, kAny},
    {{"get", -1, kReads | kHoldsValues, 1, -1, 1, h::get}, 2, kAny},
    {{"gets", -1, kReads | kHoldsValues, 1, -1, 1, h::get}, 2, kAny},
    {{"incr", -1, kWrites, 1, 1, 1, h::sum}, 3, 4},
    {{"ma", -1, kWrites, 1, 1, 1, h::sum}, 2, kMemcachedMetaWordsMax},
    {{"md", -1, kWrites, 1, 1, 1, h::meta_delete}, 2, kMemcachedMetaWordsMax},
    {{"me", -1, kReads, 1, 1, 1, h::meta_debug}, 2, kMemcachedMetaWordsMax},
    {{"mg", -1, kWrites | kHoldsValues | kGivesValues, 1, 1, 1, h::meta_get}, 2, kMemcachedMetaWordsMax},
    {{"mn", -1, kLocal, 0, 0, 0, h::meta_noop}, 1, kAny},
    {{"ms", -1, kWrites, 1, 1, 1, h::store}, 4, kMemcachedMetaWordsMax + 1},
    {{"prepend", -1, kWrites | kHoldsValues, 1, 1, 1, h::store_prepend}, 6, 7},
    {{"quit", -1, kLocal, 0, 0, 0, h::quit}, 1, kAny},
    {{"replace", -1, kWrites, 1, 1, 1, h::store}, 6, 7},
    {{"set", -1, kWrites, 1, 1, 1, h::store}, 6, 7},
    {{"stats", -1, kLocal, 0, 0, 0, h::stats}, 1, kAny},
    {{"touch", -1, kWrites, 1, 1, 1, h::touch}, 3, 4},
    {{"verbosity", -1, kLocal, 0, 0, 0, h::verbosity}, 2, 3},
    {{"version", -1, kLocal, 0, 0, 0, h::version}, 1, kAny},
});

// The same commands with words that ask for less.
constexpr CommandSpec kGetOne{"get", -1, kReads, 1, 1, 1, nullptr, &h::kGetOne};
constexpr CommandSpec kMetaRead{"mg", -1, kReads, 1, 1, 1, h::meta_get};
constexpr CommandSpec kMetaPrepend{"ms", -1, kWrites | kHoldsValues, 1, 1, 1, h::store_prepend};
constexpr CommandSpec kGatNothing{"gat", -1, kLocal, 0, 0, 0, h::gat};
// What `set` is for a client that has not authenticated.
constexpr CommandSpec kAuthenticate{"set", -1, kLocal | kNoUser, 0, 0, 0, h::authenticate};

constexpr auto kNameOf = [](const MemcachedCommand& command) { return command.spec.name; };
static_assert(std::ranges::is_sorted(kMemcachedCommands, std::ranges::less_equal{}, kNameOf),
              "find_named() halves the table");

const MemcachedCommand* find_named(std::string_view name) {
  const auto* const found = std::ranges::lower_bound(kMemcachedCommands, name, {}, kNameOf);
  return found != kMemcachedCommands.end() && found->spec.name == name ? found : nullptr;
}

bool is_meta(const CommandSpec& spec) {
  return spec.name.size() == 2;
}

/// A flag that begins so is among the words from `first` up to, not with, `end`.
bool has_flag(const CommandArguments& words, size_t first, size_t end, std::string_view beginning) {
  for (size_t i = first; i < end; ++i) {
    if (words[i].starts_with(beginning)) return true;
  }
  return false;
}

const CommandSpec* spec_for(const CommandSpec* spec, const CommandArguments& words) {
  if (spec->handler == h::get && words.size() == 2) return &kGetOne;
  if (spec->name.starts_with("gat") && words.size() == 2) return &kGatNothing;
  if (spec->handler == h::meta_get && !has_flag(words, 2, words.size(), "T")) return &kMetaRead;
  // The last word is the block.
  if (spec->name == "ms" && has_flag(words, 3, words.size() - 1, "MP")) return &kMetaPrepend;
  return spec;
}

std::string_view wrong_count_error(const CommandSpec& spec, size_t words) {
  if (!is_meta(spec) || words < 2) return spec.name == "me" ? memcached_errors::kBadFormat : memcached_errors::kUnknown;
  return spec.name == "mg" ? memcached_errors::kTooManyFlags : memcached_errors::kTooManySetFlags;
}

/// A request of HTTP has its version at the end of the line; memcached ends such connections. The gateway also ends
/// those that send headers or another POST, as Redis does.
bool is_of_http(const CommandArguments& words) {
  return words[words.size() - 1].starts_with("HTTP/") || words[0] == "POST" || words[0] == "Host:";
}

bool has_bad_memcached_key(const CommandSpec& spec, const CommandArguments& words) {
  const bool may_be_binary = is_meta(spec);
  bool is_bad = false;
  for_each_key(spec, words, [&](std::string_view key) {
    is_bad |= may_be_binary ? key.empty() || key.size() > kMemcachedKeyBytesMax : !is_memcached_key(key);
  });
  return is_bad;
}

/// The word at `index` is a noreply.
bool has_noreply(const CommandSpec& spec, const CommandArguments& words, size_t index) {
  const bool takes_noreply = spec.has(kWrites) && !is_meta(spec) && spec.handler != h::gat;
  return takes_noreply && words[index] == "noreply";
}

}  // namespace

std::vector<const CommandSpec*> all_memcached_commands() {
  std::vector<const CommandSpec*> out;
  out.reserve(kMemcachedCommands.size());
  for (const MemcachedCommand& command : kMemcachedCommands) out.push_back(&command.spec);
  return out;
}

FoundCommand MemcachedProtocol::find(const CommandArguments& words) {
  const MemcachedCommand* const command = find_named(words[0]);
  if (command == nullptr) return {.error = std::string(memcached_errors::kUnknown), .is_http = is_of_http(words)};
  if (is_restricted() && words[0] == "set") return {.spec = &kAuthenticate};
  const CommandSpec& spec = *spec_for(&command->spec, words);
  const bool is_local_gat = &spec == &kGatNothing;
  if ((words.size() < command->words_min && !is_local_gat) || words.size() > command->words_max) {
    return {.error = std::string(wrong_count_error(spec, words.size()))};
  }
  if (has_bad_memcached_key(spec, words)) {
    const bool is_silent = has_noreply(spec, words, words.size() - 1);
    return {.error = is_silent ? std::string() : std::string(memcached_errors::kBadFormat)};
  }
  return {.spec = &spec};
}

std::string MemcachedProtocol::denial(Denial reason, const CommandSpec& spec, const CommandArguments& words) const {
  if (reason == Denial::kNoUser) return std::string(memcached_errors::kNotAuthenticated);
  // The last word of a command with a block is the block.
  const size_t last = words.size() - (announces_block(words[0]) ? 2 : 1);
  return has_noreply(spec, words, last) ? std::string() : std::string(memcached_errors::kNoRight);
}

void MemcachedProtocol::write_error(std::string_view error, ReplyBytes& reply) const {
  reply.append(error);
  reply.append("\r\n");
}

}  // namespace skua::kv::gateway
