// Options of a gateway: of skua-gateway, and those of skuad for the gateway inside of a node. For their mains.
#ifndef SKUA_KVSTORE_GATEWAY_GATEWAY_OPTIONS_H_
#define SKUA_KVSTORE_GATEWAY_GATEWAY_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "app/config.h"
#include "app/log.h"
#include "app/operator_pages.h"
#include "kvstore/gateway/gateway.h"
#include "rpc/base/clock.h"
#include "rpc/transport/sealed/packet_protection.h"

namespace skua::kv::gateway {

inline constexpr const char* kProgram = "skua-gateway";

/// Inherited fields are bound to options directly, except `entrances`, `databases`, `skua_version`, the client's
/// operations_max and the times: gateway_options() computes these from the fields below.
struct ProgramOptions : GatewayOptions {
  /// Empty: Redis's protocol is not spoken; the same for memcached's.
  std::string listen_address = "127.0.0.1:6379";
  /// The name of the option for listen_address.
  std::string_view listen_option = "--listen-address";
  std::string memcached_address;
  /// Negative: the lowest number of `tables`.
  int32_t memcached_database = -1;
  /// --databases: NUMBER=TABLE
  std::vector<std::string> tables;
  DurationNs timeout_ns = 5 * kSecond;
  bool allows_everybody = false;
  /// Long enough for people who type a password.
  DurationNs authentication_timeout_ns = 60 * kSecond;
  /// Nothing is served: the program reads a password and prints its hash.
  bool hashes_password = false;
  app::HttpOptions http;
  bool renews_certificate = false;
  DurationNs packet_key_lifetime_ns = rpc::kPacketKeyLifetime;
  app::LogOptions log;

  [[nodiscard]] bool speaks() const { return !listen_address.empty() || !memcached_address.empty(); }
};

/// Binds `options` to the program's options.
void declare(app::Program& program, ProgramOptions& options);
/// The same for skuad, which has options of its own for the cluster, the log, HTTP and certificates: the caller copies
/// them. By default such a gateway listens nowhere.
void declare_in_node(app::Program& program, ProgramOptions& options);
/// INVALID_ARGUMENT: `tables` or the files about clients make no sense together, or an address is for others, clients
/// are not encrypted and known, and nobody has allowed that.
[[nodiscard]] absl::StatusOr<GatewayOptions> gateway_options(const ProgramOptions& options);
/// Writes what happens to clients, and to the files about them, to the log. Clients cause some of that: the log leaves
/// out what comes too often.
[[nodiscard]] ReportFn reporter_to(const app::Logger& logger);
/// A warning if others than this machine may reach the gateway, and clients are not encrypted and known; else empty.
[[nodiscard]] std::string exposure_warning(const ProgramOptions& options);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GATEWAY_OPTIONS_H_
