// Admission: what every request of the key-value service passes, before it is served and before it is answered.
//
//            request                        +-----------------------------------------------+
//   Endpoint -------> handler --admit()---->| HeldShards: (table, shard) -> epoch, Shard    |
//      ^                |                   +-----------------------------------------------+
//      |                |  deadline passed, unknown shard, wrong epoch, opening, no right: answered at once
//      |                v
//      |           served at once, or begin(): PendingRequest, which waits for a disk
//      |                v
//      +----- answered, or answer_when_fresh(): the members must say first that this replica is still the primary
//
// A request is answered WRONG_SHARD, with what this worker knows, if it names another epoch or a shard that is not
// here, if the shard is being opened or cannot be opened, or if the node shuts down. This status tells a client two
// things: the request was certainly not executed, and the client should try again with a fresh map. If this worker is
// the one that has not seen the newest map, the observer of on_newer_map() is told.
//
// A request of a client that has used up its quota is answered RESOURCE_EXHAUSTED (quota_ledger.h), before it is looked
// at whether it could be served. This status, too, says that the request was not executed and may be tried again, after
// a pause.
//
// A request for a table with grants is answered PERMISSION_DENIED if the identity that opened its session has no right
// to it (grants.h). That ends the client's operation. Requests that were admitted before the grants changed go on.
#ifndef SKUA_KVSTORE_SERVICE_ADMISSION_H_
#define SKUA_KVSTORE_SERVICE_ADMISSION_H_

#include <cstddef>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/request.h"
#include "kvstore/service/held_shards.h"
#include "kvstore/service/pending_request.h"
#include "kvstore/service/replies.h"
#include "kvstore/service/session_owners.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/clock.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Thread: the worker's.
class Admission {
 public:
  /// Endpoint, owners, shards and replies outlive the admission.
  Admission(rpc::Endpoint& endpoint, SessionOwners& owners, HeldShards& shards, Replies& replies, size_t pending_max)
      : endpoint_(endpoint), owners_(owners), shards_(shards), replies_(replies), pool_(pending_max) {}

  /// The shard that serves the request. Null: the request was answered.
  [[nodiscard]] HeldShard* admit(rpc::IncomingCall& call, Method method);
  [[nodiscard]] HeldShard* admit(rpc::IncomingCall& call, Method method, const Route& route);
  /// The request that was admitted is one of so many operations: they count for its client's quota.
  void count_operations(const rpc::IncomingCall& call, const HeldShard& shard, size_t operations) {
    QuotaAccount* const account = account_of(call.session, shard);
    if (account != nullptr && operations > 1) account->more(operations - 1);
  }
  /// The request read so many bytes that its reply leaves out: they count for its client's quota like bytes of a reply.
  void count_skipped(rpc::SessionId session, const HeldShard& shard, size_t bytes) {
    if (QuotaAccount* const account = account_of(session, shard)) account->replied(bytes);
  }
  /// True: the client may write with the id's client id, or the write is a repetition, which takes no room. False: the
  /// request was answered.
  [[nodiscard]] bool takes_client_id(rpc::IncomingCall& call, Method method, const HeldShard& shard,
                                     const RequestId& id);
  /// True: the shard takes writes. False: the request was answered.
  [[nodiscard]] bool takes_writes(rpc::IncomingCall& call, Method method, const HeldShard& shard);
  /// `observer` runs when a client names a newer map than this worker knows, at most once per kMapHintPauseNs.
  void on_newer_map(absl::AnyInvocable<void()> observer) { newer_map_observer_ = std::move(observer); }

  // --- Requests that outlive their handlers
  /// A pending request that takes over the lease and the token, and uses the shard. Null: there are too many, and the
  /// request was answered. `service` answers it.
  [[nodiscard]] PendingRequest* begin(RequestService& service, rpc::Lease& request, rpc::ReplyToken& reply,
                                      Method method, HeldShard& shard);
  /// The request was answered.
  void end(PendingRequest& pending);
  /// Answers the request with an error and ends it.
  void fail(PendingRequest& pending, const absl::Status& why);
  /// The request's deadline has passed: tells the caller, if it still waits, and ends the request.
  void fail_late(PendingRequest& pending);
  /// A result of a request is awaited; got_result() follows.
  void await_result() { ++waiting_count_; }
  void got_result() { --waiting_count_; }
  /// Results that are not back yet.
  [[nodiscard]] size_t waiting_count() const { return waiting_count_; }
  [[nodiscard]] size_t pending_count() const { return pool_.in_use_count(); }

  // --- Whether what was read may be told
  /// True: a value that was looked up before `now` is linearizable.
  [[nodiscard]] static bool is_fresh(const HeldShard& shard, TimeNs now) {
    return shard.replica == nullptr || shard.replica->may_read(now) || mutant(Mutant::kReadWithoutLease);
  }
  /// Answers the request as soon as its result is fresh: now, or after a round of the members. If the round shows that
  /// another replica may have led, the request is refused. A result that waits counts for the caller's memory like a
  /// reply, and may find no room there.
  void answer_when_fresh(PendingRequest& pending);
  /// Asks the members. The shard stays in use until `then` has run. `then(true)`: what is read from now on is fresh.
  template <typename Then>
  void confirm(HeldShard& shard, Then then) {
    HeldShards::use(shard);
    await_result();
    shard.replica->confirm(
        [this, &shard, then = std::move(then)](bool confirmed) mutable {
          got_result();
          then(confirmed);
          shards_.release(shard);
        },
        shards_.boot_ns());
  }
  void refuse_stale(rpc::ReplyToken& reply, Method method, const HeldShard& shard);
  /// This backup has an entry of the key under way.
  void refuse_unsettled(rpc::ReplyToken& reply, Method method, const HeldShard& shard);
  void count_backup_read(const HeldShard& shard) { replies_.stats().backup_reads += shard.reads_as_backup() ? 1 : 0; }

 private:
  [[nodiscard]] HeldShard* refuse(rpc::IncomingCall& call, Method method, const Route& route, const HeldShard* shard);
  [[nodiscard]] HeldShard* refuse_right(rpc::IncomingCall& call, Method method, const HeldShard& shard);
  [[nodiscard]] bool is_within_quota(rpc::IncomingCall& call, Method method, uint64_t epoch);
  /// Null: nothing is counted for the session.
  [[nodiscard]] QuotaAccount* account_of(rpc::SessionId session, const HeldShard& shard) const {
    return shard.checks_caller ? owners_.account(session) : nullptr;
  }
  void refuse_quota(rpc::IncomingCall& call, Method method, uint64_t epoch, QuotaAccount& account, QuotaKind kind);
  [[nodiscard]] bool serves(const HeldShard& shard, Method method) const;
  void tell_of_newer_map();

  rpc::Endpoint& endpoint_;
  SessionOwners& owners_;
  HeldShards& shards_;
  Replies& replies_;
  PendingRequestPool pool_;
  size_t waiting_count_ = 0;
  TimeNs next_map_hint_ns_ = 0;
  absl::AnyInvocable<void()> newer_map_observer_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_ADMISSION_H_
