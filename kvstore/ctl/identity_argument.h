// Arguments of skuactl that name an identity: ROLE/NAME, or the file of a certificate of it.
#ifndef SKUA_KVSTORE_CTL_IDENTITY_ARGUMENT_H_
#define SKUA_KVSTORE_CTL_IDENTITY_ARGUMENT_H_

#include <string>

#include "control/security/credentials.h"

namespace skua::kv::ctl {

/// The identity that the argument names, as "role/name". Ends the program with a usage error if the argument names
/// none, or one of another cluster than that of `credentials` (null: of any cluster).
std::string principal_of(const std::string& argument, const control::CredentialsPtr& credentials);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_IDENTITY_ARGUMENT_H_
