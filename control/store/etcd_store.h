// MetadataStore on etcd's v3 API (3.4 or newer): several control processes, one etcd.
//
// Revisions are etcd's own. Other keys in the same etcd move them too, so they grow, with gaps; and compact() is etcd's
// compaction, which takes history from everybody who uses that etcd. An etcd that compacts by itself
// (--auto-compaction-retention) is better.
//
// Reads go to a member that has a leader, are linearizable, and are repeated at other members until their time is up.
// Transactions are sent once.
//
// While a leader is required (require_leader()), each transaction is wrapped into one that first looks at the key of
// the leader:
//
//    leader key's create revision unchanged? ── yes ──> the transaction itself
//                  └── no ──> nothing, and the answer says who leads
//
// so that a process that was deposed cannot write, however late its request arrives at etcd.
#ifndef SKUA_CONTROL_STORE_ETCD_STORE_H_
#define SKUA_CONTROL_STORE_ETCD_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/store/etcd_address.h"
#include "control/store/etcd_tls.h"
#include "control/store/metadata_store.h"
#include "rpc/base/clock.h"

namespace skua::control {

class EtcdClient;

struct EtcdStoreOptions {
  EtcdAddress address;
  /// For an address with TLS.
  EtcdTlsFiles tls{};
  /// Each call is over by then.
  DurationNs call_timeout_ns = 2 * kSecond;
  /// How long open() tries.
  DurationNs open_timeout_ns = 5 * kSecond;
};

class EtcdStore final : public MetadataStore {
 public:
  /// Waits until etcd answers. UNAVAILABLE, PERMISSION_DENIED: name the addresses and the way out; of an etcd with TLS
  /// that cannot be reached, also gRPC's reason. INVALID_ARGUMENT, FAILED_PRECONDITION: as check_etcd_tls().
  static absl::StatusOr<std::unique_ptr<EtcdStore>> open(const EtcdStoreOptions& options);
  ~EtcdStore() override;

  absl::StatusOr<GetResult> get(const std::string& key) override;
  absl::StatusOr<RangeResult> range(const std::string& prefix) override;
  /// Besides the contract's errors, FAILED_PRECONDITION: another process leads, nothing happened.
  absl::StatusOr<TransactionResult> transact(const Transaction& transaction) override;
  absl::StatusOr<std::unique_ptr<Watch>> watch(const std::string& prefix, uint64_t from_revision) override;
  absl::Status compact(uint64_t revision) override;

  /// From now on transactions happen only while the leader key has this create revision. 0: no such condition, as at
  /// the beginning. Thread: any.
  void require_leader(uint64_t create_revision) { leader_revision_.store(create_revision); }

  [[nodiscard]] const EtcdAddress& address() const;
  /// For what else is kept in etcd: the election.
  [[nodiscard]] EtcdClient& client() { return *client_; }

 private:
  explicit EtcdStore(std::unique_ptr<EtcdClient> client);

  absl::StatusOr<uint64_t> newest_revision();

  const std::unique_ptr<EtcdClient> client_;
  const std::string key_prefix_;
  std::atomic<uint64_t> leader_revision_{0};
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ETCD_STORE_H_
