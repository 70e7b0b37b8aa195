// Transport plug-ins: DPDK and RDMA verbs for libskua.so.1, each in a shared object of its own.
//
// libskua.so.1 itself needs neither DPDK nor libibverbs: most machines have none of them. A client that asks for such a
// transport has the plug-in loaded:
//
//   option transport=dpdk  ->  dlopen(FOLDER/libskua-transport-dpdk.so.1)  ->  skua_transport_plugin(build)
//                                                                                 |
//   AsyncClient  <- TransportMaker  <- TransportPlugin::start(settings)  <--------+
//
// Where. FOLDER is the folder `skua` beside libskua.so.1, or what SKUA_PLUGIN_DIR names. The variable is ignored in
// programs that run with other rights than their caller's (secure_getenv). No other place is searched.
//
// What crosses the boundary. The plug-in is linked with its own copy of the engine's code that it needs, hidden like
// the library's. So the library and the plug-in have no symbols of ours in common, only types: the interfaces
// TransportPlugin and rpc::Transport (called by their vtables), settings and absl::Status. abseil and the C++ runtime
// are shared libraries of the process and exist once: memory that one side allocates may be freed by the other. Static
// variables of ours exist once on each side; none of them has to be the same on both.
//
// Which fit. Types may change with every build, so both sides have a tag of their build (SKUA_PLUGIN_BUILD): the
// version, and a hash of the headers that both compile and of compiler and abseil. A plug-in whose tag differs is
// refused before anything else of it is used. The entry point's own signature never changes.
//
// How long. A plug-in that was taken stays loaded until the process ends: threads, transports and the maker's code may
// outlive every client.
#ifndef SKUA_KVSTORE_C_TRANSPORT_PLUGIN_H_
#define SKUA_KVSTORE_C_TRANSPORT_PLUGIN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/client/types.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::c {

/// What the options of a client say of its transport.
struct TransportSettings {
  TransportSettings() { dpdk.udp_port = 0; }  // drawn at random, as for other clients

  /// "tcp", "dpdk" or "verbs".
  std::string transport = "tcp";
  rpc::DpdkSettings dpdk;
  /// Most clients of the process that use DPDK at a time: 1 to 256.
  uint16_t dpdk_clients = 1;
  rpc::VerbsSettings verbs;
};

/// What a plug-in offers. Implemented in the plug-in; a static object there. Thread: one call at a time.
class TransportPlugin {
 public:
  /// Opens the devices and returns a maker of transports. The devices are closed when the maker, its copies and the
  /// transports are gone. Errors: those of kv::dpdk_transports() or kv::verbs_transports().
  [[nodiscard]] virtual absl::StatusOr<kv::TransportMaker> start(const TransportSettings& settings) const = 0;

 protected:
  ~TransportPlugin() = default;
};

/// The type of a plug-in's only exported function, skua_transport_plugin(). Returns the plug-in's own tag, a static
/// string. Sets `plugin` if `build` equals that tag, and leaves it alone otherwise.
using PluginEntry = const char*(const char* build, const TransportPlugin** plugin);
inline constexpr const char* kPluginEntryName = "skua_transport_plugin";

/// The tag of this build: "0.1.0+3f2a9c1d7b60".
[[nodiscard]] std::string_view plugin_build();

/// Where plug-ins of this process lie: what SKUA_PLUGIN_DIR says, or the folder `skua` beside the library, which does
/// not depend on the working directory. Empty: the library's place is not known.
[[nodiscard]] std::string plugin_folder();

/// Loads the plug-in of `transport` ("dpdk", "verbs") from `folder`. It stays loaded. FAILED_PRECONDITION, naming the
/// file and the package to install: there is no such file, it cannot be loaded, it is no plug-in, or it is of another
/// build than this library (names both). Thread: any.
[[nodiscard]] absl::StatusOr<const TransportPlugin*> load_plugin(std::string_view transport, const std::string& folder);

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_TRANSPORT_PLUGIN_H_
