#include "kvstore/node/node_identity.h"

#include "absl/strings/str_cat.h"

namespace skua::kv {

absl::Status check_node_identity(const std::string& data_dir, const std::string& node_uuid,
                                 const std::string& cluster_id, const control::Identity& certificate) {
  if (!node_uuid.empty() && node_uuid != certificate.name) {
    return absl::FailedPreconditionError(absl::StrCat("the data directory ", data_dir, " is that of node ", node_uuid,
                                                      ", and --cert is that of node ", certificate.name,
                                                      "; have one issued: skuactl cert issue node ", node_uuid));
  }
  if (!cluster_id.empty() && cluster_id != certificate.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat("the data directory ", data_dir, " belongs to cluster ",
                                                      cluster_id, ", and --cert to cluster ", certificate.cluster_id,
                                                      "; give the certificate or the --data-dir of the other cluster"));
  }
  return absl::OkStatus();
}

}  // namespace skua::kv
