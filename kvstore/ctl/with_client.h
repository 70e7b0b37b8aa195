// What the commands that read or write keys share.
#ifndef SKUA_KVSTORE_CTL_WITH_CLIENT_H_
#define SKUA_KVSTORE_CTL_WITH_CLIENT_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"
#include "control/client/admin_client.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {

/// Runs `use` with a client of the cluster that `globals` names and returns its exit code. Prints why there is none: the
/// control plane is asked for `table` first, so that a wrong address or name is answered as fast, and in the same words, as by
/// commands that ask nothing else. The time that takes is part of globals.timeout_ns.
int with_client(const Globals& globals, const std::string& table, const std::function<int(Client&)>& use);

/// OK if `tables` have one of this name; else NOT_FOUND, with the nearest name or those that there are.
absl::Status check_table(const std::vector<control::TableSummary>& tables, const std::string& name);

/// The same; if there are no tables at all, also with the troubles of the cluster, which may say why: a control plane
/// that was started on a wrong directory has none.
absl::Status check_table(control::AdminClient& admin, const std::vector<control::TableSummary>& tables,
                         const std::string& name);

/// The key that is meant by an argument or option called `what`. Ends the program if it is none, or no key can be so long.
std::string key_of(const Globals& globals, const std::string& what, const std::string& text);

/// Where a command begins: at a key of the user's, or at one that it printed before.
struct StartArguments {
  std::string start;
  std::string cursor;
};
void add_start_options(app::Command& command, StartArguments& arguments, const char* help);

/// The key to begin with; empty: the smallest. Ends the program if there is none that is meant.
std::string start_of(const Globals& globals, const StartArguments& arguments);

/// How such a command is told to go on from a key: `--start='a\x00'`, and with --raw-keys `--cursor='a\x00'`.
std::string start_option(const Globals& globals, std::string_view key);

/// A command of this name with the arguments TABLE and KEY.
app::Command& add_key_command(app::Program& program, const char* name, const char* summary, std::string& table,
                              std::string& key);

/// Whether a text was given: on the command line, be it empty, or elsewhere, where an empty one means none.
inline bool is_given(const app::Option& option, const std::string& text) {
  return option.origin() == app::Origin::kFlag || !text.empty();
}

/// For Option::check: a node's name is not empty.
std::optional<std::string> complaint_of_node(const std::string& text);

/// The argument TABLE, or NAME: not empty.
void add_table_argument(app::Command& command, const char* name, std::string& table);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_WITH_CLIENT_H_
