// skuactl help.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "app/exit.h"
#include "kvstore/ctl/commands.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {

void add_help_command(app::Program& program) {
  auto path = std::make_shared<std::vector<std::string>>();
  app::Command& command = program.add_command("help", "Explains a command, or lists them.");
  command.add_positional_list("command", path.get(), "The words of a command.").optional();
  command.example("skuactl help table create", "as skuactl table create --help");
  command.action([&program, path] {
    const absl::StatusOr<std::string> text = program.help_of(*path);
    if (!text.ok()) app::fail_usage(kProgram, std_view(text.status().message()));
    std::fputs(text->c_str(), stdout);
    return app::kExitOk;
  });
}

}  // namespace skua::kv::ctl
