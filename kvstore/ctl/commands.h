// The command groups of skuactl. Each function declares the commands of one group on the program.
#ifndef SKUA_KVSTORE_CTL_COMMANDS_H_
#define SKUA_KVSTORE_CTL_COMMANDS_H_

#include <memory>

#include "app/config.h"
#include "kvstore/client/types.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {

// `globals` must outlive Program::run().
void add_data_commands(app::Program& program, const Globals& globals);
void add_write_commands(app::Program& program, const Globals& globals);
void add_fields_command(app::Program& program, const Globals& globals);
void add_key_list_commands(app::Program& program, const Globals& globals);
void add_count_command(app::Program& program, const Globals& globals);
void add_batch_command(app::Program& program, const Globals& globals);
void add_export_command(app::Program& program, const Globals& globals);
void add_import_command(app::Program& program, const Globals& globals);
void add_table_commands(app::Program& program, const Globals& globals);
void add_node_commands(app::Program& program, const Globals& globals);
/// `skuactl node yield`.
void add_yield_command(app::Command& nodes, const Globals& globals);
void add_shard_commands(app::Program& program, const Globals& globals);
void add_store_commands(app::Program& program, const Globals& globals);
void add_cert_commands(app::Program& program, const Globals& globals);
/// The commands of `skuactl cert` that need the cluster.
void add_revocation_commands(app::Command& group, const Globals& globals);
void add_join_commands(app::Command& group, const Globals& globals);
void add_grant_commands(app::Program& program, const Globals& globals);
void add_quota_commands(app::Program& program, const Globals& globals);
void add_audit_commands(app::Program& program, const Globals& globals);
void add_status_command(app::Program& program, const Globals& globals);
void add_doctor_command(app::Program& program, const Globals& globals);

/// A command that was added, and what its command line sets.
template <typename Arguments>
struct Added {
  app::Command& command;
  Arguments& arguments;
};

/// Adds a command that runs `run` with arguments of its own, which live as long as the command.
template <typename Arguments>
Added<Arguments> add_command(app::Command& parent, const char* name, const char* summary, const Globals& globals,
                             int (*run)(const Globals&, const Arguments&)) {
  const auto arguments = std::make_shared<Arguments>();
  app::Command& command = parent.add_command(name, summary);
  command.action([&globals, arguments, run] { return run(globals, *arguments); });
  return {command, *arguments};
}

/// Adds --durability, for commands that write.
void add_durability_option(app::Command& command, Durability& durability);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_COMMANDS_H_
