// skuactl: the command line for operators and users of a cluster.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/config.h"
#include "app/exit.h"
#include "app/process.h"
#include "app/security_options.h"
#include "app/transport_options.h"
#include "control/proto/grpc_log.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "kvstore/ctl/shell.h"

namespace {

namespace ctl = skua::kv::ctl;

// In the order of TransportKind.
constexpr const char* kTransportNames[] = {"tcp", "dpdk", "verbs"};

void add_transport_options(skua::app::Program& program, ctl::Globals& globals) {
  using Kind = ctl::TransportKind;
  program.add_choice(
      "transport", &globals.transport,
      {{kTransportNames[0], Kind::kTcp}, {kTransportNames[1], Kind::kDpdk}, {kTransportNames[2], Kind::kVerbs}},
      "What requests travel by; the nodes' --transport.");
  skua::app::add_dpdk_options(program, &globals.dpdk);
  skua::app::add_verbs_options(program, &globals.verbs);
}

void add_help_command(skua::app::Program& program) {
  auto path = std::make_shared<std::vector<std::string>>();
  skua::app::Command& command = program.add_command("help", "Explains a command, or lists them.");
  command.add_positional_list("command", path.get(), "The words of a command.").optional();
  command.example("skuactl help table create", "as skuactl table create --help");
  command.action([&program, path] {
    std::fputs(ctl::must_be_valid(program.help_of(*path)).c_str(), stdout);
    return skua::app::kExitOk;
  });
}

// In the order of the help.
constexpr void (*kAddCommands[])(skua::app::Program& program, const ctl::Globals& globals) = {
    ctl::add_status_command, ctl::add_data_commands,  ctl::add_key_list_commands, ctl::add_fields_command,
    ctl::add_count_command,  ctl::add_write_commands, ctl::add_batch_command,     ctl::add_export_command,
    ctl::add_import_command, ctl::add_table_commands, ctl::add_node_commands,     ctl::add_shard_commands,
    ctl::add_store_commands, ctl::add_cert_commands,  ctl::add_grant_commands,    ctl::add_quota_commands,
    ctl::add_audit_commands, ctl::add_doctor_command};

/// One command line of skuactl, without the program's name; returns its exit code. Also what its shell runs.
int run_command_line(const std::vector<std::string>& words) {
  ctl::Globals globals;
  skua::app::Program program(
      {.name = ctl::kProgram,
       .summary = "Looks into a Skua cluster, reads and writes keys, makes tables, moves shards.",
       .description = "Exit codes: 0 done, 1 the cluster said no or could not be reached, 2 the "
                      "command line was wrong."});
  program
      .add_string("control-address", &globals.control_address, "Where the control plane listens; several with commas.")
      .value_name("HOST:PORT")
      .addresses();
  program
      .add_duration("timeout", &globals.timeout_ns, "For each command, all told; what --wait waits for comes on top.")
      .range(skua::kMillisecond, 3600 * skua::kSecond);
  program.add_choice<bool>("output", &globals.json, {{"text", false}, {"json", true}}, "How answers are printed.");
  program.add_bool("raw-keys", &globals.raw_keys, "Take keys as they are: a backslash is a backslash.");
  program.fold_options("the connection", [&] {
    skua::app::add_security_options(program, &globals.credential_files);
    skua::app::add_packets_option(program, &globals.packets);
    add_transport_options(program, globals);
  });
  program.example("skuactl status", "nodes, tables and who is missing");
  program.example("skuactl table create notes --shards 6 --replicas 3", "a table, each shard on three nodes");
  program.example("skuactl put notes greeting hello", "a key");
  program.example("skuactl --output json scan notes --limit 10", "ten rows as JSON");
  for (const auto add : kAddCommands) add(program, globals);
  ctl::add_shell_command(program, run_command_line);
  add_help_command(program);
  program.parse_or_exit(words);
  const char* const transport = kTransportNames[static_cast<size_t>(globals.transport)];
  ctl::must_be_valid(skua::app::check_transport_flags(program.selected(), transport));
  const int code = program.run();
  return code == skua::app::kExitOk ? skua::app::finish_output(ctl::kProgram) : code;
}

}  // namespace

int main(int argc, char** argv) {
  skua::app::check_process(ctl::kProgram, skua::app::kFilesOfClient);
  skua::control::silence_grpc_log();
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (words.empty() && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) words.emplace_back("shell");
  return run_command_line(words);
}
