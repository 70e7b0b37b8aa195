// SessionOwners: which identity opened which session of a worker, so that its sessions can be closed when it is revoked
// (control/core/revocation.h), have its rights to tables (control/core/grants.h) as long as they stand, and are counted
// for its quota (control/core/quotas.h). The packets of a session carry no certificate: only the gRPC call that opened
// it had one.
//
//   OpenSession (gRPC) --> Worker::accept_offer() ----- admit(), add() ---> session
//   shard map ----------> Worker::set_denied() ------- deny() ------------> sessions to close
//               |-------> ShardServer::set_grants() -- set_grants() ------> rows of sessions
//               `-------> ShardServer::set_quotas() -- set_quotas() ------> accounts of sessions
//   request ------------> Admission ------------------ may(), account() --> served, or refused
//
// The worker's thread runs all of these calls. So a session is either added before the list of revoked identities
// comes, and closed then, or it is refused because of the list. A session has its row and its account before its first
// request.
//
// Sessions that end are forgotten from time to time: those that count for a quota once a second, the others when there
// are at least twice as many entries as sessions, and a few. Thread: the worker's.
#ifndef SKUA_KVSTORE_SERVICE_SESSION_OWNERS_H_
#define SKUA_KVSTORE_SERVICE_SESSION_OWNERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kvstore/service/grants.h"
#include "kvstore/service/quota_ledger.h"
#include "rpc/base/clock.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Identities: "client/app-7"; "" is somebody without a certificate.
class SessionOwners {
 public:
  using HasEnded = absl::FunctionRef<bool(rpc::SessionId)>;

  /// Whether the identity may have one more session. The place is for add(). PERMISSION_DENIED: the identity is on the
  /// list. RESOURCE_EXHAUSTED: it has as many sessions as its quota says.
  [[nodiscard]] absl::StatusOr<SessionPlace> admit(const std::string& owner);

  /// `owner` has opened this session. If the same offer comes again, the session keeps its owner.
  void add(rpc::SessionId session, const std::string& owner, SessionPlace place = {});

  /// Replaces the list. Returns the sessions of those on it, and forgets them.
  [[nodiscard]] std::vector<rpc::SessionId> deny(std::set<std::string> denied);

  /// Forgets sessions that have ended, if that may be worth it. `sessions` is how many there are.
  void forget_ended(size_t sessions, HasEnded has_ended);
  /// Gives back what sessions that have ended took of quotas. Call it often: it looks once a second.
  void tick(TimeNs now, HasEnded has_ended) {
    if (now < next_look_ns_ || !ledger_.is_in_force()) return;
    forget_counted(now, has_ended);
  }

  /// Replaces the grants. Cost: linear in the number of sessions.
  void set_grants(std::shared_ptr<const Grants> grants);
  /// Whether requests of the session may do this with the table, which is of the newest grants.
  [[nodiscard]] bool may(rpc::SessionId session, const ClosedTable& table, Rights wanted) const {
    const Seat* const seat = seat_of(session);
    return table.allows(seat == nullptr ? kRowOfNobody : seat->row, wanted);
  }
  /// Who opened the session; "": nobody with a certificate.
  [[nodiscard]] std::string owner_of(rpc::SessionId session) const;

  /// Replaces the quotas. Cost: linear in the number of sessions.
  void set_quotas(const std::shared_ptr<const Quotas>& quotas, TimeNs now);
  /// What the session's requests and replies are counted for; null: nothing. Valid until the next call that is not
  /// const.
  [[nodiscard]] QuotaAccount* account(rpc::SessionId session) const {
    const Seat* const seat = seat_of(session);
    return seat == nullptr ? nullptr : seat->account;
  }
  [[nodiscard]] QuotaLedger& ledger() { return ledger_; }
  [[nodiscard]] const QuotaLedger& ledger() const { return ledger_; }

  [[nodiscard]] size_t size() const { return by_index_.size(); }

 private:
  struct Owned {
    rpc::SessionId session;
    std::string owner;
    SessionPlace place;
  };
  /// What requests need to know of a session. The index of a session that has ended is used again, by a session with
  /// another generation.
  struct Seat {
    uint32_t generation = 0;
    GrantRow row = kRowOfNobody;
    QuotaAccount* account = nullptr;
  };

  [[nodiscard]] const Seat* seat_of(rpc::SessionId session) const {
    if (session.index >= seats_.size()) return nullptr;
    const Seat& seat = seats_[session.index];
    return seat.generation == session.generation ? &seat : nullptr;
  }
  void forget_counted(TimeNs now, HasEnded has_ended);

  std::map<uint32_t, Owned> by_index_;
  std::vector<Seat> seats_;  // by index; those of sessions that are not in by_index_ are empty
  std::set<std::string> denied_;
  std::shared_ptr<const Grants> grants_ = std::make_shared<const Grants>();
  QuotaLedger ledger_;
  TimeNs next_look_ns_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SESSION_OWNERS_H_
