// The plug-in libskua-transport-verbs.so.1. kvstore/c/transport_plugin.h says how it is used.
#include "kvstore/client/verbs.h"

#include "kvstore/c/plugins/entry.h"

namespace skua::c {
namespace {

class VerbsPlugin final : public TransportPlugin {
 public:
  [[nodiscard]] absl::StatusOr<kv::TransportMaker> start(const TransportSettings& settings) const override {
    return kv::verbs_transports(settings.verbs);
  }
};

const VerbsPlugin g_plugin;

}  // namespace
}  // namespace skua::c

const char* skua_transport_plugin(const char* build, const skua::c::TransportPlugin** plugin) {
  return skua::c::answer_entry(build, plugin, SKUA_PLUGIN_BUILD, skua::c::g_plugin);
}
