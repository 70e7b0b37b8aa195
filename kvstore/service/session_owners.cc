#include "kvstore/service/session_owners.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

constexpr size_t kForgetFrom = 64;

}  // namespace

absl::Status SessionOwners::check(const std::string& owner) const {
  if (!denied_.contains(owner)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the identity ", owner, " is revoked: it gets no session"));
}

void SessionOwners::add(rpc::SessionId session, const std::string& owner) {
  if (rows_.size() <= session.index) rows_.resize(session.index + size_t{1}, kRowOfNobody);
  if (owner.empty()) {
    // The session before it at this index had perhaps more rights.
    if (!owner_of(session).empty()) return;
    rows_[session.index] = kRowOfNobody;
    by_index_.erase(session.index);
    return;
  }
  Owned& owned = by_index_[session.index];
  if (owned.session != session) owned = {session, owner};
  rows_[session.index] = grants_->row_of(owned.owner);
}

std::vector<rpc::SessionId> SessionOwners::deny(std::set<std::string> denied) {
  denied_ = std::move(denied);
  std::vector<rpc::SessionId> sessions;
  std::erase_if(by_index_, [&](const auto& entry) {
    if (!denied_.contains(entry.second.owner)) return false;
    sessions.push_back(entry.second.session);
    return true;
  });
  return sessions;
}

void SessionOwners::set_grants(std::shared_ptr<const Grants> grants) {
  grants_ = std::move(grants);
  for (const auto& [index, owned] : by_index_) rows_[index] = grants_->row_of(owned.owner);
}

std::string SessionOwners::owner_of(rpc::SessionId session) const {
  const auto found = by_index_.find(session.index);
  return found == by_index_.end() || found->second.session != session ? std::string() : found->second.owner;
}

void SessionOwners::forget_ended(size_t sessions, absl::FunctionRef<bool(rpc::SessionId)> has_ended) {
  if (by_index_.size() <= 2 * sessions + kForgetFrom) return;
  std::erase_if(by_index_, [&](const auto& entry) {
    if (!has_ended(entry.second.session)) return false;
    rows_[entry.first] = kRowOfNobody;
    return true;
  });
}

}  // namespace skua::kv
