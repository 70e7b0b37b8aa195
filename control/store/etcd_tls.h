// How an etcd is believed, and what it is shown: for addresses that begin with etcds://.
#ifndef SKUA_CONTROL_STORE_ETCD_TLS_H_
#define SKUA_CONTROL_STORE_ETCD_TLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace grpc {
class ChannelCredentials;
}

namespace skua::control {

/// Paths of PEM files. They are read again when they change, so certificates are renewed without a restart.
struct EtcdTlsFiles {
  /// The authorities of etcd's certificate. Always needed.
  std::string authorities{};
  /// What etcd is shown (it asks with --client-cert-auth), and its private key. Both or neither.
  std::string certificate{};
  std::string key{};

  [[nodiscard]] bool empty() const { return authorities.empty() && certificate.empty() && key.empty(); }
};

/// Whether the files are complete and readable. INVALID_ARGUMENT, FAILED_PRECONDITION: names the option and what to do.
[[nodiscard]] absl::Status check_etcd_tls(const EtcdTlsFiles& files);

/// Precondition: check_etcd_tls(). The address that is connected to must stand in etcd's certificate.
[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> etcd_credentials(const EtcdTlsFiles& files);

/// `why`, gRPC's text about a TLS connection to etcd that was not made or broke at once, with what to do about it.
[[nodiscard]] std::string explain_etcd_tls(const std::string& why, bool has_certificate);

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ETCD_TLS_H_
