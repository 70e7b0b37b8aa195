// Who a node is: what its data directory says, and what its certificate says. Both must agree.
#ifndef SKUA_KVSTORE_NODE_NODE_IDENTITY_H_
#define SKUA_KVSTORE_NODE_NODE_IDENTITY_H_

#include <string>

#include "absl/status/status.h"
#include "control/security/identity.h"

namespace skua::kv {

/// FAILED_PRECONDITION: the directory is that of another node than the certificate's, or of another cluster. Empty
/// texts: the directory is new, or has joined no cluster yet.
[[nodiscard]] absl::Status check_node_identity(const std::string& data_dir, const std::string& node_uuid,
                                               const std::string& cluster_id, const control::Identity& certificate);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_IDENTITY_H_
