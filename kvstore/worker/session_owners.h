// SessionOwners: which identity opened which session of a worker, so that its sessions can be closed when it is revoked
// (control/core/revocation.h). The packets of a session carry no certificate: only the gRPC call that opened it had one.
//
//   OpenSession (gRPC) --> Worker::accept_offer() -- check(), add() ------> session
//   shard map ----------> Worker::set_denied() ---- deny() ---------------> sessions to close
//
// Both come to the worker's thread, so none of an identity's sessions slips through: it is added before the list comes,
// and closed, or it is refused by the list.
//
// Sessions that end are forgotten from time to time (forget_ended()), so there are at most twice as many entries as
// sessions, and a few. Thread: the worker's.
#ifndef SKUA_KVSTORE_WORKER_SESSION_OWNERS_H_
#define SKUA_KVSTORE_WORKER_SESSION_OWNERS_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
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

  [[nodiscard]] size_t size() const { return by_index_.size(); }

 private:
  struct Owned {
    rpc::SessionId session;
    std::string owner;
  };

  std::map<uint32_t, Owned> by_index_;  // the index of a session that has ended is used again
  std::set<std::string> denied_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_WORKER_SESSION_OWNERS_H_
