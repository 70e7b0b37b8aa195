// SessionOwners: which identity opened which session of a worker, so that its sessions can be closed when it is revoked
// (control/core/revocation.h), and have its rights to tables (control/core/grants.h) as long as they stand. The packets
// of a session carry no certificate: only the gRPC call that opened it had one.
//
//   OpenSession (gRPC) --> Worker::accept_offer() -- check(), add() ------> session
//   shard map ----------> Worker::set_denied() ---- deny() ---------------> sessions to close
//               `-------> Worker::set_grants() ---- set_grants() ---------> rows of sessions
//   request ------------> Admission --------------- may() ----------------> served, or refused
//
// All of them come to the worker's thread, so none of an identity's sessions slips through: it is added before the list
// comes, and closed, or it is refused by the list. A session has its row before its first request.
//
// Sessions that end are forgotten from time to time (forget_ended()), so there are at most twice as many entries as
// sessions, and a few. Thread: the worker's.
#ifndef SKUA_KVSTORE_SERVICE_SESSION_OWNERS_H_
#define SKUA_KVSTORE_SERVICE_SESSION_OWNERS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/service/grants.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Identities: "client/app-7"; "" is somebody without a certificate.
class SessionOwners {
 public:
  /// PERMISSION_DENIED if the identity is on the list.
  [[nodiscard]] absl::Status check(const std::string& owner) const;

  /// `owner` has opened this session. One that has an owner already, because its offer came again, keeps it.
  void add(rpc::SessionId session, const std::string& owner);

  /// Replaces the list. Returns the sessions of those on it, and forgets them.
  [[nodiscard]] std::vector<rpc::SessionId> deny(std::set<std::string> denied);

  /// Forgets sessions that have ended, if that may be worth it. `sessions` is how many there are.
  void forget_ended(size_t sessions, absl::FunctionRef<bool(rpc::SessionId)> has_ended);

  /// Replaces the grants. Cost: linear in the number of sessions.
  void set_grants(std::shared_ptr<const Grants> grants);
  /// Whether requests of the session may do this with the table, which is of the newest grants.
  [[nodiscard]] bool may(rpc::SessionId session, const ClosedTable& table, Rights wanted) const {
    return table.allows(session.index < rows_.size() ? rows_[session.index] : kRowOfNobody, wanted);
  }
  /// Who opened the session; "": nobody with a certificate.
  [[nodiscard]] std::string owner_of(rpc::SessionId session) const;

  [[nodiscard]] size_t size() const { return by_index_.size(); }

 private:
  struct Owned {
    rpc::SessionId session;
    std::string owner;
  };

  std::map<uint32_t, Owned> by_index_;  // the index of a session that has ended is used again
  std::vector<GrantRow> rows_;          // by index; of sessions that have ended, what they had
  std::set<std::string> denied_;
  std::shared_ptr<const Grants> grants_ = std::make_shared<const Grants>();
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SESSION_OWNERS_H_
