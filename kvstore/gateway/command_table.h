// The commands: name, arguments, keys, handler. One table; COMMAND, the hazards and the errors follow from it.
#ifndef SKUA_KVSTORE_GATEWAY_COMMAND_TABLE_H_
#define SKUA_KVSTORE_GATEWAY_COMMAND_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kvstore/gateway/command_arguments.h"
#include "kvstore/gateway/command_task.h"

namespace skua::kv::gateway {

struct StoreRequest;
struct StoreResult;

using CommandHandler = CommandTask (*)(CommandRun& run);

/// A command that asks the store once, and whose reply follows from its words and the result. It needs no coroutine:
/// while it waits, its run is all that it has. Thousands of GETs and SETs wait at the same time. The less memory each
/// of them has, the more of them the processor's cache holds.
struct OneRequest {
  /// False: these words need the handler, and nothing was done.
  bool (*ask)(const CommandRun& run, StoreRequest& request);
  void (*reply)(CommandRun& run, StoreResult&& result);
};

enum CommandFlag : uint32_t {
  kReads = 1,               ///< its keys
  kWrites = 2,              ///< its keys
  kFast = 4,                ///< takes as long for a large table as for a small one
  kLocal = 8,               ///< needs no request to the store; runs as soon as it is read
  kWholeTable = 16,         ///< waits for all commands before it, and all after it wait
  kHoldsValues = 32,        ///< holds values of any size until its other requests are answered; see holds_values()
  kPrepares = 64,           ///< begins when it comes, and waits for its turn then (CommandRun::turn)
  kOrdersKeys = 128,        ///< waits for commands before it, and those after it wait, as if it wrote its keys
  kNotQueued = 256,         ///< acts at once, inside MULTI, too
  kNotInMulti = 512,        ///< is refused inside MULTI
  kNoUser = 1024,           ///< is open to clients that have not authenticated
  kGivesValues = 2048,      ///< of kWrites: gives the old value, too; SET only with the word GET
  kAllDatabases = 4096,     ///< is for all databases, not for the one that is selected
  kBurst = 8192,            ///< several commands as one (command_burst.h)
  kHasSubcommands = 16384,  ///< "config": the table has "config|get"
  // What distinguishes commands that have one handler:
  kMilliseconds = 32768,  ///< its time is in milliseconds, not in seconds
  kTimeOfDay = 65536,     ///< its time counts since 1970, not from now on
  kSubtracts = 131072,    ///< DECR, DECRBY
  kFieldNames = 262144,   ///< HKEYS, HGETALL: gives the names of all fields
  kFieldValues = 524288   ///< HVALS, HGETALL: gives their values
};

struct CommandSpec {
  /// Lower case. A subcommand has its command in front: "config|get".
  std::string_view name;
  /// Words, with the name and a subcommand; negative: at least so many.
  int arity;
  uint32_t flags;
  // Where its keys are among the words; 0: it has none. last_key may count from the end: -1 is the last word.
  int first_key;
  int last_key;
  int key_step;
  /// Null: one_request handles all forms, or only subcommands can run.
  CommandHandler handler;
  const OneRequest* one_request = nullptr;  ///< comes before the handler; may be null

  [[nodiscard]] bool has(CommandFlag flag) const { return (flags & flag) != 0; }
  [[nodiscard]] bool fits(size_t word_count) const {
    const auto count = static_cast<int>(word_count);
    return arity < 0 ? count >= -arity : count == arity;
  }
  /// False: it has subcommands, and is none by itself.
  [[nodiscard]] bool can_run() const { return handler != nullptr || one_request != nullptr; }
  [[nodiscard]] bool is_subcommand() const { return name.find('|') != std::string_view::npos; }
};

/// In the order of names.
[[nodiscard]] std::span<const CommandSpec> all_commands();
/// By its full name, in any case. Null: there is none.
[[nodiscard]] const CommandSpec* find_command(std::string_view name);

/// The command that the words name, and what is wrong with them.
struct FoundCommand {
  const CommandSpec* spec = nullptr;
  /// If `spec` is null: the error that the client gets.
  std::string error = {};
  /// The words are the beginning of a request of HTTP.
  bool is_http = false;
  /// The words are an EXEC that is wrong: the transaction ends.
  bool ends_transaction = false;
};
[[nodiscard]] FoundCommand find_command(const CommandArguments& words);

/// Calls `use` with each key of the words. They fit the command's arity.
template <typename Use>
void for_each_key(const CommandSpec& spec, const CommandArguments& words, Use use) {
  if (spec.first_key == 0) return;
  const auto count = static_cast<int>(words.size());
  const int last = spec.last_key < 0 ? count + spec.last_key : spec.last_key;
  for (int i = spec.first_key; i <= last && i < count; i += spec.key_step) use(words[static_cast<size_t>(i)]);
}

/// The command holds values of any size while it waits for the store. Few such commands run at a time.
[[nodiscard]] bool holds_values(const CommandSpec& spec, const CommandArguments& words);
/// About what a command takes from its coming until its reply is out, without the values that it reads: the words,
/// entries of tables for them, and the values that SETRANGE, HSET and HDEL make.
[[nodiscard]] size_t memory_bytes(const CommandSpec& spec, const CommandArguments& words);

/// "ERR wrong number of arguments for 'get' command"
[[nodiscard]] std::string wrong_arity_error(std::string_view command);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_COMMAND_TABLE_H_
