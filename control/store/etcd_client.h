// Calls to etcd: deadlines, and the choice of the member to talk to. Internal to control/store: includes gRPC.
//
// One member is in use at a time. A call goes to a connected member only, so that "connection refused" never leaves
// anything undecided; a call that fails moves on to the next member. Reads are then tried again until their time is up.
// Changes are sent once: whether one that failed on its way has happened is for the caller to find out.
#ifndef SKUA_CONTROL_STORE_ETCD_CLIENT_H_
#define SKUA_CONTROL_STORE_ETCD_CLIENT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/store/etcd_address.h"
#include "control/store/etcd_rpc.grpc.pb.h"
#include "control/store/etcd_tls.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// What every stream and call says: a member without a leader refuses instead of keeping us waiting.
void ask_for_leader(grpc::ClientContext& context);

/// Thread: any.
class EtcdClient {
 public:
  struct Member {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Watch::Stub> watch;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
  };

  /// `tls`: for an address with TLS; check_etcd_tls() is OK.
  EtcdClient(EtcdAddress address, DurationNs call_timeout_ns, EtcdTlsFiles tls);

  [[nodiscard]] const EtcdAddress& address() const { return address_; }
  [[nodiscard]] const EtcdTlsFiles& tls() const { return tls_; }

  /// Linearizable. OUT_OF_RANGE: the revision is compacted or in the future (is_compacted() tells). `timeout_ns` 0: the
  /// client's.
  absl::StatusOr<etcdserverpb::RangeResponse> range(const etcdserverpb::RangeRequest& request,
                                                    DurationNs timeout_ns = 0);
  /// INVALID_ARGUMENT: etcd refused it because of its limits, nothing happened. Other errors: it may have happened.
  absl::StatusOr<etcdserverpb::TxnResponse> transact(const etcdserverpb::TxnRequest& request);
  absl::Status compact(int64_t revision);

  /// A new lease's id.
  absl::StatusOr<int64_t> grant_lease(DurationNs ttl_ns);
  /// NOT_FOUND: the lease is gone.
  absl::Status keep_lease(int64_t id);
  absl::Status revoke_lease(int64_t id);

  /// The member in use.
  [[nodiscard]] Member& member() { return *members_[in_use_.load() % members_.size()]; }
  /// A call to `member` failed: the next call tries another.
  void move_on(const Member& member);

  /// etcd's answer in our words: the code, and one line that says what to do where that can be said.
  [[nodiscard]] absl::Status translate(const grpc::Status& status, const Member& member) const;

 private:
  using WallTime = std::chrono::system_clock::time_point;

  Member* connected_member(WallTime deadline);
  [[nodiscard]] absl::Status unreachable();
  /// One call of a kv or lease method on a connected member.
  template <typename Call>
  absl::Status call_once(WallTime deadline, DurationNs attempt_ns, const Call& call);

  const EtcdAddress address_;
  const DurationNs call_timeout_ns_;
  const EtcdTlsFiles tls_;
  std::vector<std::unique_ptr<Member>> members_;
  std::atomic<size_t> in_use_{0};
};

/// True for etcd's error about a revision whose history is gone.
[[nodiscard]] bool is_compacted(const absl::Status& status);

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ETCD_CLIENT_H_
