// What the commands that read or write keys share.
#ifndef SKUA_KVSTORE_CTL_WITH_CLIENT_H_
#define SKUA_KVSTORE_CTL_WITH_CLIENT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "app/config.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {

/// Runs `use` with a client of the cluster that `globals` names and returns its exit code; prints why if there is none.
int with_client(const Globals& globals, const std::function<int(Client&)>& use);

void print_json(const nlohmann::json& json);

/// A command of this name with the arguments TABLE and KEY.
app::Command& add_key_command(app::Program& program, const char* name, const char* summary, std::string& table,
                              std::string& key);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_WITH_CLIENT_H_
