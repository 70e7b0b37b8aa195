// Functions shared by the commands that read or write keys, and by those that take a table, a node, an identity or a
// start key.
#ifndef SKUA_KVSTORE_CTL_WITH_CLIENT_H_
#define SKUA_KVSTORE_CTL_WITH_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"
#include "app/signals.h"
#include "control/client/admin_client.h"
#include "kvstore/client/async_client.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/key_range.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {

/// A client of the cluster that `globals` names. Ends the program if there is none. Asks the control plane for `table`
/// first: so a wrong address or name is reported as fast, and in the same words, as by commands that only ask the
/// control plane. globals.timeout_ns includes that time.
std::unique_ptr<Client> open_client(const Globals& globals, const std::string& table);

/// Runs `call` with such a client, destroys the client, and returns the result. So the caller may call must(), which
/// ends the process.
template <typename Call>
auto with_client(const Globals& globals, const std::string& table, const Call& call) {
  const std::unique_ptr<Client> client = open_client(globals, table);
  return call(*client);
}

/// A client that the command polls, for commands that take long or keep many operations in flight. Ctrl-C does not end
/// the process: the command looks at `stop`. A broken pipe is an error of the write. Operations are given their timeout
/// by the command.
struct AsyncSession {
  std::unique_ptr<app::StopSignal> stop;
  std::unique_ptr<AsyncClient> client;
};

/// The same as open_client(). Must be called before there are other threads.
AsyncSession open_async_client(const Globals& globals, const std::string& table);

/// Polls the client until `done` is true; calls `each_turn` after each poll. CANCELLED: Ctrl-C.
[[nodiscard]] absl::Status poll_until(
    const AsyncSession& session, const bool& done, const std::function<void()>& each_turn = [] {});

/// If the time ran out, the failure with a hint: "; a large table needs a longer --timeout". `what`: a large table.
[[nodiscard]] absl::Status with_timeout_hint(const absl::Status& status, std::string_view what);

/// The interval between two looks of a command that waits for the cluster.
inline constexpr DurationNs kLookPause = 200 * kMillisecond;

/// A client of the control plane that `globals` names. Ends the program if its credentials cannot be used.
control::AdminClient admin_of(const Globals& globals);

/// OK if `tables` has a table of this name. NOT_FOUND otherwise; it names the most similar name or the existing tables.
absl::Status check_table(const std::vector<control::TableSummary>& tables, const std::string& name);

/// The same. If there is no table at all, NOT_FOUND also has the troubles of the cluster, which may say why: for
/// example, a control plane that was started on a wrong directory has no tables.
absl::Status check_table(control::AdminClient& admin, const std::vector<control::TableSummary>& tables,
                         const std::string& name);

/// must() for an operation on a key. For an absent key the message names the key, and ends with `remark`.
void must_have_key(const absl::Status& status, const std::string& table, std::string_view key,
                   std::string_view remark = "");

/// Reads a key. Ends the program if there is none, or it cannot be read.
ReadResult read_key(const Globals& globals, const std::string& table, const std::string& key,
                    const ReadOptions& options = {});

/// The key that `text` stands for; `text` is the value of the argument or option called `what`. Ends the program if
/// `text` has a bad escape, or if the key is empty or too long.
std::string key_of(const Globals& globals, const std::string& what, const std::string& text);

/// key_of() each of the texts.
std::vector<std::string> keys_of(const Globals& globals, const std::string& what,
                                 const std::vector<std::string>& texts);

/// The same for a key that a command printed: \xNN is a byte also with --raw-keys.
std::string printed_key_of(const std::string& what, const std::string& text);

/// The key at which a command begins: one that the user chose (--start), or one that the command printed before
/// (--cursor).
struct StartArguments {
  std::string start;
  std::string cursor;
};
void add_start_options(app::Command& command, StartArguments& arguments, const char* help);

/// The key at which to begin. Empty: the smallest key. Ends the program if both options are given, or the key is
/// invalid.
std::string start_of(const Globals& globals, const StartArguments& arguments);

/// The option that makes such a command go on from `key`: `--start='a\x00'`; with --raw-keys `--cursor='a\x00'`.
std::string start_option(const Globals& globals, std::string_view key);

/// Adds --prefix, for commands that take the keys that begin with it.
void add_prefix_option(app::Command& command, std::string& prefix);

/// The keys that begin with the prefix that the user gave; all keys if the text is empty. Ends the program if it is no
/// beginning of a key.
KeyRange prefix_range(const Globals& globals, const std::string& prefix);

/// Adds the arguments TABLE and KEY.
void add_key_arguments(app::Command& command, std::string& table, std::string& key);

/// add_command() with the arguments TABLE and KEY.
template <typename Arguments>
Added<Arguments> add_key_command(app::Program& program, const char* name, const char* summary, const Globals& globals,
                                 int (*run)(const Globals&, const Arguments&)) {
  const Added<Arguments> added = add_command(program, name, summary, globals, run);
  add_key_arguments(added.command, added.arguments.table, added.arguments.key);
  return added;
}

/// True if the option was given: on the command line, even if its text is empty, or elsewhere with a text that is not
/// empty.
inline bool is_given(const app::Option& option, const std::string& text) {
  return option.origin() == app::Origin::kFlag || !text.empty();
}

/// For Option::check: `complaint` ("must name a node") if the text is empty.
std::function<std::optional<std::string>(const std::string&)> not_empty(const char* complaint);

/// Adds the argument NODE.
void add_node_argument(app::Command& command, std::string& node);

/// Adds the argument TABLE, or NAME, which must not be empty.
void add_table_argument(app::Command& command, const char* name, std::string& table);

/// An identity that a command changes, as "role/name", and a client of the control plane that is to be told.
struct NamedIdentity {
  std::string principal;
  control::AdminClient admin;
};

/// The identity that the argument names. Ends the program with a usage error if the argument names none, or one of
/// another cluster than that of the credentials (none are given: of any cluster).
NamedIdentity named_identity(const Globals& globals, const std::string& argument);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_WITH_CLIENT_H_
