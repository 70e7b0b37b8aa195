// The shell of skuactl: command lines one after the other, typed at a prompt or read from standard input.
//
//   line --> words --> a process of its own: the given flags and the words, as if typed after `skuactl`
//
// Each command line runs in a child process, made by fork() of this one, which has no threads and has done nothing yet.
// So commands may end their process, and Ctrl-C ends the command and not the shell.
#ifndef SKUA_KVSTORE_CTL_SHELL_H_
#define SKUA_KVSTORE_CTL_SHELL_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"

namespace skua::kv::ctl {

/// Thread: one, the only one of the process.
class Shell {
 public:
  /// Runs a command line, without the program's name, and returns its exit code.
  using RunFn = std::function<int(const std::vector<std::string>& words)>;

  /// `program` has parsed the shell's own command line; it must outlive the shell.
  Shell(const app::Program& program, RunFn run);

  /// Lines that a user types, until Ctrl-D or `exit`. Returns the exit code of the last command.
  int converse();
  /// Lines of standard input, until its end or `exit`. Stops at the first command that fails, unless `keeps_going`.
  /// Returns the exit code of the (first) command that failed, or 0.
  int run_script(bool keeps_going);

 private:
  /// Exit code of the line; nothing: the user wants to leave.
  std::optional<int> run_line(const std::vector<std::string>& words, bool has_terminal);
  std::vector<std::string> complete(std::string_view line);
  /// Names of tables or nodes, as the cluster knows them now, or nothing.
  std::vector<std::string> names_of(const std::string& argument);

  const app::Program& program_;
  const RunFn run_;
  const std::vector<std::string> flags_;
};

/// Adds the command `shell`. `run`: as for Shell.
void add_shell_command(app::Program& program, Shell::RunFn run);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_SHELL_H_
