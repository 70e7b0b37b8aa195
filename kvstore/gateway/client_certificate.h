// The user that a client's certificate stands for.
//
// A certificate of a cluster's client names it (control/security/identity.h): skua://CLUSTER/client/NAME. It stands for
// the user NAME of the users file if the authority that signed it is a cluster's own, of the same cluster. A
// certificate of any other authority that clients may have stands for nobody, whatever it says: whoever runs that
// authority could name any user in it.
#ifndef SKUA_KVSTORE_GATEWAY_CLIENT_CERTIFICATE_H_
#define SKUA_KVSTORE_GATEWAY_CLIENT_CERTIFICATE_H_

#include <string>
#include <vector>

namespace skua::kv::gateway {

/// `chain`: PEM texts of certificates that were verified, the client's first, the authority's last. Empty: nobody.
[[nodiscard]] std::string certificate_user(const std::vector<std::string>& chain);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CLIENT_CERTIFICATE_H_
