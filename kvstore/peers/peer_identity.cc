#include "kvstore/peers/peer_identity.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "control/core/uuid.h"

namespace skua::kv {

absl::StatusOr<rpc::Uuid> parse_uuid(const std::string& text) {
  if (!control::is_uuid(text)) return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a uuid"));
  const std::string bytes = absl::HexStringToBytes(absl::StrReplaceAll(text, {{"-", ""}}));
  rpc::Uuid uuid;
  std::ranges::copy(bytes, uuid.bytes.begin());
  return uuid;
}

absl::StatusOr<rpc::EndpointIdentity> worker_identity(const std::string& node_uuid, uint64_t incarnation,
                                                      const std::string& cluster_id, uint32_t worker) {
  const auto uuid = parse_uuid(node_uuid);
  if (!uuid.ok()) return uuid.status();
  rpc::EndpointIdentity identity;
  identity.uuid = *uuid;
  identity.incarnation = incarnation;
  identity.uuid.bytes[14] = static_cast<uint8_t>(identity.uuid.bytes[14] ^ worker >> 8);
  identity.uuid.bytes[15] = static_cast<uint8_t>(identity.uuid.bytes[15] ^ worker);
  if (!cluster_id.empty()) {
    const auto cluster = parse_uuid(cluster_id);
    if (!cluster.ok()) return cluster.status();
    identity.cluster_id = *cluster;
  }
  return identity;
}

NodeId node_id_of(const rpc::Uuid& uuid) {
  NodeId id = 0;
  for (size_t i = 0; i < sizeof id; ++i) id = id << 8 | uuid.bytes[i];
  return id;
}

NodeId node_id_of(const std::string& uuid) {
  const auto parsed = parse_uuid(uuid);
  return parsed.ok() ? node_id_of(*parsed) : 0;
}

}  // namespace skua::kv
