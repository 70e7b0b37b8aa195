// QuotaLedger: what a worker has counted of the clients that have quotas (quotas.h).
//
//   request   within(bytes) ---> counted, or the quota that is used up
//             more(keys)         of a MULTI_GET or BATCH, whose first key counts with the request
//   write     admit(id) -------> false: the client writes with too many client ids
//   reply     replied(bytes) --> counted: whoever is told much waits longer before the next request
//
// A rate is a node's. Each worker has its share of it, so that workers have nothing in common. Sessions are counted for
// all workers together (SessionPlace), and client ids by each worker for itself: a client id takes room in shards,
// which are workers'.
//
// What was counted stays when quotas change: a client gets no new burst because somebody else's quota was changed.
#ifndef SKUA_KVSTORE_SERVICE_QUOTA_LEDGER_H_
#define SKUA_KVSTORE_SERVICE_QUOTA_LEDGER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kvstore/completions/client_ids.h"
#include "kvstore/service/quotas.h"
#include "kvstore/service/token_bucket.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// What one client has used of a worker. `quota` outlives the account, or the next call of follow(). Thread: the
/// worker's.
class QuotaAccount {
 public:
  QuotaAccount(const NodeQuota& quota, uint32_t workers, TimeNs now);

  /// The quota of the client in a newer list. A rate that did not change keeps its bucket.
  void follow(const NodeQuota& quota, uint32_t workers, TimeNs now);

  /// A request of so many bytes. nullopt: it is counted and may be served.
  [[nodiscard]] std::optional<QuotaKind> within(size_t bytes, TimeNs now) {
    if (!operations_.has(1, now)) return QuotaKind::kOperations;
    if (!bytes_.has(1, now)) return QuotaKind::kBytes;
    operations_.take(1);
    bytes_.take(bytes);
    return std::nullopt;
  }
  /// The request was one of so many more operations.
  void more(size_t operations) { operations_.take(operations); }
  void replied(size_t bytes) { bytes_.take(bytes); }
  /// A write with this client id. False: it is one too many.
  [[nodiscard]] bool admit(uint64_t client_id, TimeNs now) { return client_ids_.admit(client_id, now); }

  [[nodiscard]] const NodeQuota& quota() const { return *quota_; }

 private:
  const NodeQuota* quota_;
  TokenBucket operations_;
  TokenBucket bytes_;
  ClientIds client_ids_;
};

/// Thread: the worker's.
class QuotaLedger {
 public:
  /// Replaces the quotas. Accounts of clients that still have a quota stay where they are.
  void set(std::shared_ptr<const Quotas> quotas, TimeNs now);
  /// Somebody is limited.
  [[nodiscard]] bool is_in_force() const { return !quotas_->empty(); }

  /// Null: the identity is not limited. Valid until the quotas change, or longer (see set()).
  [[nodiscard]] QuotaAccount* account(const std::string& principal) const;
  /// See SessionPlace.
  [[nodiscard]] absl::StatusOr<SessionPlace> take_session(const std::string& principal);
  [[nodiscard]] SessionPlace keep_session(const std::string& principal) const {
    return SessionPlace::keep(quotas_, principal);
  }

  void count_refusal(QuotaKind kind) { ++refusals_[static_cast<size_t>(kind)]; }
  /// How many were refused, by QuotaKind.
  [[nodiscard]] const std::array<uint64_t, kQuotaKinds>& refusals() const { return refusals_; }

 private:
  std::shared_ptr<const Quotas> quotas_ = std::make_shared<const Quotas>();
  std::map<std::string, std::unique_ptr<QuotaAccount>> accounts_;  // of all clients that have a quota
  std::array<uint64_t, kQuotaKinds> refusals_{};
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_QUOTA_LEDGER_H_
