// ClusterAccess over control/client. Only control_access.cc and admin.cc of this folder use control/client.
#ifndef SKUA_KVSTORE_CLIENT_CONTROL_ACCESS_H_
#define SKUA_KVSTORE_CLIENT_CONTROL_ACCESS_H_

#include <memory>
#include <string>

#include "control/security/credentials.h"
#include "kvstore/client/cluster_access.h"

namespace skua::kv {

[[nodiscard]] std::unique_ptr<ClusterAccess> make_control_access(std::string control_address,
                                                                 control::CredentialsPtr credentials);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CONTROL_ACCESS_H_
