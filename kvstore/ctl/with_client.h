// Functions shared by the commands that read or write keys, and by those that take a table, a node or a start key.
#ifndef SKUA_KVSTORE_CTL_WITH_CLIENT_H_
#define SKUA_KVSTORE_CTL_WITH_CLIENT_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"
#include "app/signals.h"
#include "control/client/admin_client.h"
#include "kvstore/client/async_client.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/key_range.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {

/// Runs `use` with a client of the cluster that `globals` names, and returns its exit code. If there is no client,
/// prints why and returns a failure's exit code. Asks the control plane for `table` first: so a wrong address or name
/// is reported as fast, and in the same words, as by commands that only ask the control plane. globals.timeout_ns
/// includes that time.
int with_client(const Globals& globals, const std::string& table, const std::function<int(Client&)>& use);

/// The same with a client that the command polls, for commands that take long or keep many operations in flight. Ctrl-C
/// does not end the process: `use` looks at `stop`. A broken pipe is an error of the write. Operations are given their
/// timeout by `use`. Must be called before there are other threads.
int with_async_client(const Globals& globals, const std::string& table,
                      const std::function<int(AsyncClient& client, app::StopSignal& stop)>& use);

/// Polls the client until `done` is true; calls `each_turn` after each poll. CANCELLED: Ctrl-C.
[[nodiscard]] absl::Status poll_until(
    AsyncClient& client, app::StopSignal& stop, const bool& done, const std::function<void()>& each_turn = [] {});

/// If the time ran out, the failure with a hint: "; a large table needs a longer --timeout". `what`: a large table.
[[nodiscard]] absl::Status with_timeout_hint(const absl::Status& status, std::string_view what);

/// Runs `use` with the cluster's status and the client of the control plane that told it, and returns its exit code.
/// Reports the failure if there is no status.
int with_status(const Globals& globals,
                const std::function<int(control::AdminClient&, const control::ClusterStatus&)>& use);

/// OK if `tables` has a table of this name. NOT_FOUND otherwise; it names the most similar name or the existing tables.
absl::Status check_table(const std::vector<control::TableSummary>& tables, const std::string& name);

/// The same. If there is no table at all, NOT_FOUND also has the troubles of the cluster, which may say why: for
/// example, a control plane that was started on a wrong directory has no tables.
absl::Status check_table(control::AdminClient& admin, const std::vector<control::TableSummary>& tables,
                         const std::string& name);

/// The key that `text` stands for; `text` is the value of the argument or option called `what`. Ends the program if
/// `text` has a bad escape, or if the key is empty or too long.
std::string key_of(const Globals& globals, const std::string& what, const std::string& text);

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

/// Adds a command of this name with the arguments TABLE and KEY.
app::Command& add_key_command(app::Program& program, const char* name, const char* summary, std::string& table,
                              std::string& key);

/// True if the option was given: on the command line, even if its text is empty, or elsewhere with a text that is not
/// empty.
inline bool is_given(const app::Option& option, const std::string& text) {
  return option.origin() == app::Origin::kFlag || !text.empty();
}

/// For Option::check: what is wrong with a node's name; it must not be empty.
std::optional<std::string> complaint_of_node(const std::string& text);

/// Adds the argument TABLE, or NAME, which must not be empty.
void add_table_argument(app::Command& command, const char* name, std::string& table);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_WITH_CLIENT_H_
