#include "kvstore/gateway/client_certificate.h"

#include "absl/status/statusor.h"
#include "control/security/certificates.h"

namespace skua::kv::gateway {

std::string certificate_user(const std::vector<std::string>& chain) {
  if (chain.size() < 2) return {};
  const absl::StatusOr<control::CertificateInfo> client = control::inspect_certificate(chain.front());
  const absl::StatusOr<control::CertificateInfo> authority = control::inspect_certificate(chain.back());
  if (!client.ok() || !authority.ok() || !authority->is_authority || !client->identity.has_value()) return {};
  const control::Identity& identity = *client->identity;
  const bool is_of_cluster = !identity.cluster_id.empty() && identity.cluster_id == authority->cluster_id;
  return is_of_cluster && identity.role == control::Role::kClient ? identity.name : std::string();
}

}  // namespace skua::kv::gateway
