#include "kvstore/gateway/command_rights.h"

#include "kvstore/gateway/handlers.h"

namespace skua::kv::gateway {

Rights needed_rights(const CommandSpec& spec, const CommandArguments& words) {
  if (spec.has(kLocal)) return {};
  if (spec.has(kWrites)) {
    // SET gives the old value only with the word GET.
    const bool gives_values = spec.has(kGivesValues) && (spec.handler != handlers::set || holds_values(spec, words));
    return {.read = gives_values, .write = true};
  }
  if (spec.has(kReads) || spec.has(kWholeTable) || spec.handler == handlers::watch) return {.read = true};
  if (spec.handler == handlers::exec) return {};
  return {.read = true, .write = true};
}

}  // namespace skua::kv::gateway
