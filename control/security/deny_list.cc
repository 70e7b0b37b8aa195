#include "control/security/deny_list.h"

#include "absl/strings/str_cat.h"

namespace skua::control {

void DenyList::update(uint64_t revision, const std::vector<std::string>& principals) {
  const std::lock_guard lock(mutex_);
  if (revision < revision_) return;
  revision_ = revision;
  principals_ = {principals.begin(), principals.end()};
}

void DenyList::replace(uint64_t revision, const std::vector<std::string>& principals) {
  const std::lock_guard lock(mutex_);
  revision_ = revision;
  principals_ = {principals.begin(), principals.end()};
}

absl::Status DenyList::check(const Identity& identity) const {
  const std::lock_guard lock(mutex_);
  if (principals_.empty() || !principals_.contains(identity.principal())) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the identity ", identity.principal(), " is revoked, and with it all its certificates: have one of ",
                   "another name issued, or ask an administrator to take it off the list (skuactl cert unrevoke)"));
}

}  // namespace skua::control
