#include "kvstore/ctl/with_client.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "app/exit.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {

int with_client(const Globals& globals, const std::function<int(Client&)>& use) {
  ClientOptions options;
  options.control_address = globals.control_address;
  options.timeout = std::chrono::nanoseconds(globals.timeout_ns);
  if (globals.transport != TransportKind::kTcp) {
    absl::StatusOr<TransportMaker> maker =
        globals.transport == TransportKind::kDpdk ? dpdk_transports(globals.dpdk, 1) : verbs_transports(globals.verbs);
    if (!maker.ok()) app::fail_usage(kProgram, std_view(maker.status().message()));
    options.make_transport = *std::move(maker);
  }
  absl::StatusOr<std::unique_ptr<Client>> client = Client::create(options);
  return client.ok() ? use(**client) : report_failure(client.status());
}

void print_json(const nlohmann::json& json) {
  std::printf("%s\n", json.dump(2).c_str());
}

app::Command& add_key_command(app::Program& program, const char* name, const char* summary, std::string& table,
                              std::string& key) {
  app::Command& command = program.add_command(name, summary);
  command.add_positional("table", &table, "The table's name.");
  command.add_positional("key", &key, "The key, 1 to 1,024 bytes.");
  return command;
}

}  // namespace skua::kv::ctl
