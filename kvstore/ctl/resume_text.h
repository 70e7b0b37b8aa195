// The command that goes on where a long command stopped, as a line for a shell.
#ifndef SKUA_KVSTORE_CTL_RESUME_TEXT_H_
#define SKUA_KVSTORE_CTL_RESUME_TEXT_H_

#include <string>
#include <vector>

#include "app/config.h"

namespace skua::kv::ctl {

/// `skuactl`, the options of skuactl itself that were given on the command line, and `words`, each quoted if a shell
/// wants that. `program` has parsed its command line.
[[nodiscard]] std::string command_line(const app::Program& program, const std::vector<std::string>& words);

/// Prints `skuactl: TEXT` on standard error, whatever its length.
void print_notice(const std::string& text);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_RESUME_TEXT_H_
