// The entry point that every transport plug-in has (kvstore/c/transport_plugin.h).
#ifndef SKUA_KVSTORE_C_PLUGINS_ENTRY_H_
#define SKUA_KVSTORE_C_PLUGINS_ENTRY_H_

#include <cstring>

#include "kvstore/c/transport_plugin.h"

/// A PluginEntry. Thread: any.
extern "C" [[gnu::visibility("default")]] const char* skua_transport_plugin(const char* build,
                                                                            const skua::c::TransportPlugin** plugin);

namespace skua::c {

/// What skua_transport_plugin() does: hands out `own` if both sides are of one build. `own_build`: SKUA_PLUGIN_BUILD.
inline const char* answer_entry(const char* build, const TransportPlugin** plugin, const char* own_build,
                                const TransportPlugin& own) {
  if (std::strcmp(build, own_build) == 0) *plugin = &own;
  return own_build;
}

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_PLUGINS_ENTRY_H_
