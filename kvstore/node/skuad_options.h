// skuad's options: what they are called, what they mean, and their defaults.
#ifndef SKUA_KVSTORE_NODE_SKUAD_OPTIONS_H_
#define SKUA_KVSTORE_NODE_SKUAD_OPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "app/config.h"
#include "app/log.h"
#include "app/operator_pages.h"
#include "control/security/credential_files.h"
#include "control/security/exposure.h"
#include "control/security/security_choice.h"
#include "kvstore/gateway/gateway_options.h"
#include "kvstore/log/log.h"
#include "kvstore/node/listening.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/node/node_options.h"
#include "rpc/base/clock.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/sealed/packet_protection.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::kv {

enum class Polling : uint8_t { kAdaptive, kBusy };
enum class TransportKind : uint8_t { kTcp, kDpdk, kVerbs };

/// What the command line, the environment and the configuration file say.
struct SkuadOptions : NodeSettings {
  SkuadOptions() {
    control_address = "127.0.0.1:7400";
    grpc_address = "127.0.0.1:7410";
  }

  control::CredentialFiles credentials;
  control::SecurityChoice security = control::SecurityChoice::kAuto;
  /// For a node that has no certificate yet; a secret.
  std::string join_token;
  rpc::PacketProtection packets = rpc::PacketProtection::kDefault;
  std::string data_address = "127.0.0.1:7420";
  app::HttpOptions http;
  Polling polling = Polling::kAdaptive;
  DurationNs spin = 50 * kMicrosecond;
  TransportKind transport = TransportKind::kTcp;
  rpc::DpdkSettings dpdk;
  rpc::VerbsSettings verbs;
  rpc::TrafficSettings traffic;
  uint32_t sessions_max = 4096;
  MemoryWishes memory{.node = size_t{1} << 30};  // but for the number of workers
  int background_threads = 2;
  bool sync_writes = true;
  size_t log_segment = 0;   // 0: by the disk's size
  size_t disk_reserve = 0;  // 0: by the disk's size
  size_t copy_rate = 0;
  DurationNs yield_timeout = 10 * kSecond;  // 0: the node does not yield
  /// For clients of Redis and memcached. What the node has anyway (certificates and so on) is not filled in.
  gateway::ProgramOptions gateway;
  bool check_config = false;
  app::LogOptions log;
};

/// In the order of TransportKind.
inline constexpr std::array<const char*, 3> kTransportNames = {"tcp", "dpdk", "verbs"};
[[nodiscard]] constexpr const char* name_of(TransportKind kind) {
  return kTransportNames[static_cast<size_t>(kind)];
}
/// Declares the options, with their help texts and examples. `options` outlives the program.
void declare(app::Program& program, SkuadOptions& options);
/// Where the node listens. Precondition: the options hold valid addresses.
[[nodiscard]] Listening listening_of(const SkuadOptions& options);
/// Where connections and packets come in. Precondition: the options hold valid addresses.
[[nodiscard]] std::vector<control::Entrance> entrances_of(const SkuadOptions& options);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SKUAD_OPTIONS_H_
