// The plug-in libskua-transport-dpdk.so.1. kvstore/c/transport_plugin.h says how it is used.
#include "kvstore/client/dpdk.h"

#include "kvstore/c/plugins/entry.h"

namespace skua::c {
namespace {

class DpdkPlugin final : public TransportPlugin {
 public:
  [[nodiscard]] absl::StatusOr<kv::TransportMaker> start(const TransportSettings& settings) const override {
    return kv::dpdk_transports(settings.dpdk, settings.dpdk_clients);
  }
};

const DpdkPlugin g_plugin;

}  // namespace
}  // namespace skua::c

const char* skua_transport_plugin(const char* build, const skua::c::TransportPlugin** plugin) {
  return skua::c::answer_entry(build, plugin, SKUA_PLUGIN_BUILD, skua::c::g_plugin);
}
