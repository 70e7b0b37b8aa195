// Quotas: how much of this node clients may use (control/core/quotas.h), compiled for its workers.
//
//   OpenSession --> SessionPlace: one of the sessions that the client may have        taken and given back by workers
//   session index --> QuotaAccount of its client (SessionOwners, quota_ledger.h)      worked out when the session opens
//   request, reply --> QuotaAccount: the worker's share of the client's rates         no lock, no text, no memory
//
// Made once for a list of quotas, and never changed, but for the number of sessions: these are few and come by gRPC, so
// all workers count them together. All workers share the object. Thread: any.
#ifndef SKUA_KVSTORE_SERVICE_QUOTAS_H_
#define SKUA_KVSTORE_SERVICE_QUOTAS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace skua::kv {

/// What a client may use of this node. 0: no limit.
struct ClientQuota {
  std::string principal;  ///< "client/<name>"
  uint64_t operations_per_s = 0;
  uint64_t bytes_per_s = 0;
  uint32_t sessions = 0;
  uint32_t client_ids = 0;

  friend bool operator==(const ClientQuota&, const ClientQuota&) = default;
};

/// What a quota may limit.
enum class QuotaKind : uint8_t { kOperations, kBytes, kSessions, kClientIds };
inline constexpr size_t kQuotaKinds = 4;
/// By QuotaKind, as metrics have them.
inline constexpr std::array<const char*, kQuotaKinds> kQuotaKindNames = {"operations", "bytes", "sessions",
                                                                         "client_ids"};

/// A client's quota on this node.
struct NodeQuota {
  ClientQuota limits;
  /// What a refusal says, by QuotaKind.
  std::array<std::string, kQuotaKinds> refusals;
  /// Sessions that the client has with all workers.
  mutable std::atomic<uint32_t> sessions{0};

  [[nodiscard]] const std::string& refusal(QuotaKind kind) const { return refusals[static_cast<size_t>(kind)]; }
};

class Quotas {
 public:
  /// Nobody is limited.
  Quotas() = default;
  /// `workers`: of the node.
  Quotas(const std::vector<ClientQuota>& quotas, uint32_t workers);

  /// Null: the identity is not limited. Valid as long as this object. Cost: logarithmic.
  [[nodiscard]] const NodeQuota* find(const std::string& principal) const;
  /// By principal.
  [[nodiscard]] const std::map<std::string, NodeQuota>& all() const { return quotas_; }
  [[nodiscard]] bool empty() const { return quotas_.empty(); }
  /// The number of workers that share each rate.
  [[nodiscard]] uint32_t workers() const { return workers_; }

 private:
  std::map<std::string, NodeQuota> quotas_;
  uint32_t workers_ = 1;
};

/// One of a client's sessions, which counts as long as this object lives. Move-only.
class SessionPlace {
 public:
  /// Of a client that is not limited.
  SessionPlace() = default;

  /// RESOURCE_EXHAUSTED: the client has as many sessions as it may.
  [[nodiscard]] static absl::StatusOr<SessionPlace> take(std::shared_ptr<const Quotas> quotas,
                                                         const std::string& principal);
  /// For a session that is open already. It counts even if the client is above its limit.
  [[nodiscard]] static SessionPlace keep(std::shared_ptr<const Quotas> quotas, const std::string& principal);

  [[nodiscard]] bool is_counted() const { return quota_ != nullptr; }

 private:
  struct GiveBack {
    std::shared_ptr<const Quotas> quotas;  // keeps the quota
    void operator()(const NodeQuota* quota) const { quota->sessions.fetch_sub(1, std::memory_order_relaxed); }
  };
  SessionPlace(std::shared_ptr<const Quotas> quotas, const NodeQuota* quota)
      : quota_(quota, GiveBack{std::move(quotas)}) {}

  std::unique_ptr<const NodeQuota, GiveBack> quota_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_QUOTAS_H_
