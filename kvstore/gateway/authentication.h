// What AUTH, HELLO and memcached's first `set` have in common: a name and a password become the session's user.
//
//   const std::shared_ptr<const ClientUser> user = user_named(run, name);
//   const StoreResult verdict = co_await run.store(password_request(user, password));
//   switch (authenticate(run, name, user, verdict)) { ... }
//
// Nothing of the connection is read while the handler waits (ClientConnection::wants_input). The users may change
// meanwhile: the verdict counts only if the user still has the password that was checked.
#ifndef SKUA_KVSTORE_GATEWAY_AUTHENTICATION_H_
#define SKUA_KVSTORE_GATEWAY_AUTHENTICATION_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "kvstore/gateway/client_users.h"
#include "kvstore/gateway/command_run.h"

namespace skua::kv::gateway {

/// The user that AUTH with a password alone means.
inline constexpr std::string_view kDefaultUser = "default";

/// There is a users file: clients must authenticate.
[[nodiscard]] bool has_users(CommandRun& run);
/// Null: there is no such user, or no users file.
[[nodiscard]] std::shared_ptr<const ClientUser> user_named(CommandRun& run, std::string_view name);
/// `user`: null asks as well, and takes as long. What the arguments point to must live until the verdict is there.
[[nodiscard]] StoreRequest password_request(const std::shared_ptr<const ClientUser>& user, std::string_view password);

enum class Authenticated : uint8_t { kYes, kNo, kBusy };
/// kYes: `user` is the session's from now on. kNo: the session keeps the user that it had; the operator hears of it.
[[nodiscard]] Authenticated authenticate(CommandRun& run, std::string_view name,
                                         const std::shared_ptr<const ClientUser>& user, const StoreResult& verdict);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_AUTHENTICATION_H_
