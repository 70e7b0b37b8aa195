#include "kvstore/service/session_owners.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

constexpr size_t kForgetFrom = 64;
/// A client whose sessions have ended waits at most so long for their places.
constexpr DurationNs kLookPauseNs = kSecond;

}  // namespace

absl::StatusOr<SessionPlace> SessionOwners::admit(const std::string& owner) {
  if (denied_.contains(owner)) {
    return absl::PermissionDeniedError(absl::StrCat("the identity ", owner, " is revoked: it gets no session"));
  }
  return ledger_.take_session(owner);
}

void SessionOwners::add(rpc::SessionId session, const std::string& owner, SessionPlace place) {
  if (seats_.size() <= session.index) seats_.resize(session.index + size_t{1});
  if (owner.empty()) {
    // An earlier session at this index may have had more rights, so its entries are cleared.
    if (!owner_of(session).empty()) return;
    seats_[session.index] = {};
    by_index_.erase(session.index);
    return;
  }
  Owned& owned = by_index_[session.index];
  if (owned.session != session) owned = {session, owner, std::move(place)};
  seats_[session.index] = {session.generation, grants_->row_of(owned.owner), ledger_.account(owned.owner)};
}

std::vector<rpc::SessionId> SessionOwners::deny(std::set<std::string> denied) {
  denied_ = std::move(denied);
  std::vector<rpc::SessionId> sessions;
  std::erase_if(by_index_, [&](const auto& entry) {
    if (!denied_.contains(entry.second.owner)) return false;
    sessions.push_back(entry.second.session);
    seats_[entry.first] = {};
    return true;
  });
  return sessions;
}

void SessionOwners::set_grants(std::shared_ptr<const Grants> grants) {
  grants_ = std::move(grants);
  for (const auto& [index, owned] : by_index_) seats_[index].row = grants_->row_of(owned.owner);
}

void SessionOwners::set_quotas(const std::shared_ptr<const Quotas>& quotas, TimeNs now) {
  ledger_.set(quotas, now);
  next_look_ns_ = now;  // sessions that were not counted before may have ended long ago
  for (auto& [index, owned] : by_index_) {
    owned.place = ledger_.keep_session(owned.owner);
    seats_[index].account = ledger_.account(owned.owner);
  }
}

std::string SessionOwners::owner_of(rpc::SessionId session) const {
  const auto found = by_index_.find(session.index);
  return found == by_index_.end() || found->second.session != session ? std::string() : found->second.owner;
}

void SessionOwners::forget_ended(size_t sessions, HasEnded has_ended) {
  if (by_index_.size() <= 2 * sessions + kForgetFrom) return;
  std::erase_if(by_index_, [&](const auto& entry) {
    if (!has_ended(entry.second.session)) return false;
    seats_[entry.first] = {};
    return true;
  });
}

void SessionOwners::forget_counted(TimeNs now, HasEnded has_ended) {
  next_look_ns_ = now + kLookPauseNs;
  std::erase_if(by_index_, [&](const auto& entry) {
    if (!entry.second.place.is_counted() || !has_ended(entry.second.session)) return false;
    seats_[entry.first] = {};
    return true;
  });
}

}  // namespace skua::kv
