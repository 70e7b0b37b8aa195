// Options of the C library: named, set as text.
#ifndef SKUA_KVSTORE_C_OPTIONS_H_
#define SKUA_KVSTORE_C_OPTIONS_H_

#include <string_view>

#include "absl/status/status.h"
#include "include/skua/skua.h"
#include "kvstore/c/transport_plugin.h"
#include "kvstore/client/types.h"

struct skua_options {
  skua::kv::ClientOptions client;
  skua::c::TransportSettings transport;
  /// Somebody has set `spin`. Otherwise a polled client does not spin: its program sleeps in a loop of its own.
  bool has_spin = false;
  bool keeps_grpc_log = false;
  bool renews_certificate = false;
};

namespace skua::c {

/// INVALID_ARGUMENT: no such option (names the nearest one), or no value for it.
[[nodiscard]] absl::Status set_option(skua_options& options, std::string_view name, std::string_view value);

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_OPTIONS_H_
