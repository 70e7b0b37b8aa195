#include "kvstore/gateway/authentication.h"

#include <string>
#include <utility>

#include "rpc/base/printable.h"

namespace skua::kv::gateway {
namespace {

/// Bytes of a name that the log shows.
constexpr size_t kShownNameBytesMax = 64;

}  // namespace

bool has_users(CommandRun& run) {
  return run.gateway().users != nullptr;
}

std::shared_ptr<const ClientUser> user_named(CommandRun& run, std::string_view name) {
  return has_users(run) ? run.gateway().users->find(name) : nullptr;
}

StoreRequest password_request(const std::shared_ptr<const ClientUser>& user, std::string_view password) {
  return {.kind = StoreRequest::Kind::kPassword, .value = password, .user = user.get()};
}

Authenticated authenticate(CommandRun& run, std::string_view name, const std::shared_ptr<const ClientUser>& user,
                           const StoreResult& verdict) {
  if (verdict.status == StoreResult::Status::kNotApplied) return Authenticated::kBusy;
  if (verdict.ok() && user != nullptr) {
    std::shared_ptr<const ClientUser> now = user_named(run, user->name);
    if (now != nullptr && now->password == user->password) {
      run.session().user = std::move(now);
      run.session().is_by_certificate = false;
      return Authenticated::kYes;
    }
  }
  GatewayIdentity& identity = run.gateway().identity;
  identity.authentication_failures.fetch_add(1, std::memory_order_relaxed);
  if (identity.report) {
    identity.report(true, "a client said a wrong user or password", run.session().remote,
                    printable(name, kShownNameBytesMax));
  }
  return Authenticated::kNo;
}

}  // namespace skua::kv::gateway
