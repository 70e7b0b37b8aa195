// Where the metadata of a cluster is in etcd, as users write it:
//
//    etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/prod
//           └──────── members of one etcd ─────────┘ └─ prefix: one for each Skua cluster
//
// or etcds://... for members that speak TLS, and which keys that means:
//
//    /prod/kv/<key>   the keys of the metadata store
//    /prod/leader     who leads (etcd_election.h)
#ifndef SKUA_CONTROL_STORE_ETCD_ADDRESS_H_
#define SKUA_CONTROL_STORE_ETCD_ADDRESS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace skua::control {

inline constexpr std::string_view kEtcdScheme = "etcd://";
inline constexpr std::string_view kEtcdTlsScheme = "etcds://";
inline constexpr const char* kEtcdDefaultPrefix = "skua";
inline constexpr size_t kEtcdEndpointsMax = 16;
inline constexpr size_t kEtcdPrefixMax = 128;
/// What etcd's --max-txn-ops and --max-request-bytes must be for the largest transactions; its own defaults are 128 and
/// 1.5 MiB.
inline constexpr size_t kEtcdTransactionOps = 10'000;
inline constexpr size_t kEtcdRequestBytes = size_t{8} << 20;

struct EtcdAddress {
  /// "host:port" of each member.
  std::vector<std::string> endpoints;
  /// Without slashes at its ends.
  std::string prefix = kEtcdDefaultPrefix;
  /// etcds://
  bool tls = false;

  /// "etcd://host:port,.../prefix".
  [[nodiscard]] std::string text() const;
  /// The start of the metadata store's keys.
  [[nodiscard]] std::string key_prefix() const;
  [[nodiscard]] std::string leader_key() const;

  friend bool operator==(const EtcdAddress&, const EtcdAddress&) = default;
};

/// INVALID_ARGUMENT naming what is wrong and the right form. A missing prefix is kEtcdDefaultPrefix.
[[nodiscard]] absl::StatusOr<EtcdAddress> parse_etcd_address(std::string_view text);

/// The first key that does not start with `prefix`, as etcd's ranges end; "\0", which for etcd is the end of all keys,
/// if there is none.
[[nodiscard]] std::string prefix_end(std::string prefix);

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ETCD_ADDRESS_H_
