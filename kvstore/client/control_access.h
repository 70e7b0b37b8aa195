// ClusterAccess by way of control/client. The only file here that knows it.
#ifndef SKUA_KVSTORE_CLIENT_CONTROL_ACCESS_H_
#define SKUA_KVSTORE_CLIENT_CONTROL_ACCESS_H_

#include <memory>
#include <string>

#include "kvstore/client/cluster_access.h"

namespace skua::kv {

[[nodiscard]] std::unique_ptr<ClusterAccess> make_control_access(std::string control_address);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CONTROL_ACCESS_H_
