// ShardServer: the key-value service of one worker: its shards, the engine below them, and the handlers of requests.
//
//    Endpoint --- requests ---> ReadService, WriteService ---> Shard         (worker's thread)
//                                    |        Admission: may it be served, may its answer be told?
//       <--------- replies ----- Replies      HeldShards: what the worker holds
//                                    ^
//    log, applier, readers -----> mailbox     results of disks
#ifndef SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_
#define SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "kvstore/service/admission.h"
#include "kvstore/service/held_shards.h"
#include "kvstore/service/read_service.h"
#include "kvstore/service/replies.h"
#include "kvstore/service/service_limits.h"
#include "kvstore/service/session_owners.h"
#include "kvstore/service/stats.h"
#include "kvstore/service/write_service.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/machine_clock.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// A worker's log as recovery left it, and the log's device.
struct OpenLog {
  std::unique_ptr<Device> device;
  std::unique_ptr<Log> log;
};

/// Thread: the endpoint's, but for the engine's stop(). The server is made after the endpoint and destroyed after it,
/// because replies that the endpoint still holds lie in the server's pages and in the engine's memory. The reader pool
/// and the databases outlive both.
class ShardServer {
 public:
  struct Options : HeldShards::Options {
    /// The engine's memory is registered with the endpoint.
    WorkerEngine::Options engine;
    size_t pending_max = kPendingRequestsMax;
  };

  /// Registers the handlers of the service's methods at `endpoint` and starts the engine's threads. Errors: the
  /// engine's memory cannot be allocated, or not be registered.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardServer>> create(rpc::Endpoint& endpoint, ReaderPool& readers,
                                                                           const Options& options, OpenLog log);
  /// No request may wait for the engine or the reader pool any longer (checked).
  ~ShardServer();
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;

  /// Call after each poll. Returns how long the next poll may sleep at most, in ns, so that replicas keep their
  /// deadlines.
  DurationNs tick();

  /// Who opened which session; add() each before its first request.
  [[nodiscard]] SessionOwners& owners() { return owners_; }
  /// Which clients may use which tables, from the next request on.
  void set_grants(const std::shared_ptr<const Grants>& grants);
  /// How much of the node clients may use, from the next request on.
  void set_quotas(const std::shared_ptr<const Quotas>& quotas);
  [[nodiscard]] HeldShards& shards() { return shards_; }
  [[nodiscard]] const HeldShards& shards() const { return shards_; }
  /// As HeldShards says it.
  [[nodiscard]] absl::Status on_replica_message(ShardId id, const ReplicaId& from, const ReplicaMessage& message,
                                                std::span<const ReplicaEntry> entries) {
    return shards_.on_replica_message(id, from, message, entries, endpoint_.now_ns());
  }
  /// The revision of the newest map whose changes have been made here.
  void set_map_revision(uint64_t revision) { replies_.set_map_revision(revision); }
  /// See WriteService.
  void set_growth(absl::Status growth) {
    engine_->set_short_of_room(!growth.ok());
    writes_.set_growth(std::move(growth));
  }
  /// See Admission.
  void on_newer_map(absl::AnyInvocable<void()> observer) { admission_.on_newer_map(std::move(observer)); }

  // --- The end
  /// From now on requests are answered WRONG_SHARD. `on_drained` runs when all requests that were accepted have been
  /// answered.
  void drain(absl::AnyInvocable<void()> on_drained = {});
  /// Its stop() is to be called after `on_drained` has run, and its bind_to_this_thread() on the thread that polls the
  /// endpoint.
  [[nodiscard]] WorkerEngine& engine() { return *engine_; }
  /// Requests whose result is not back yet.
  [[nodiscard]] size_t waiting_count() const { return admission_.waiting_count(); }

  /// The counters of this worker. The caller fills in those of the endpoint and the transport.
  [[nodiscard]] WorkerStats stats() const;

 private:
  ShardServer(rpc::Endpoint& endpoint, ReaderPool& readers, const Options& options);
  [[nodiscard]] absl::Status start(const Options& options, ReaderPool& readers, OpenLog log);
  /// Requests of this method go to `kHandler` of `service`, by a call that is known when this is compiled.
  template <auto kHandler, typename Service>
  void serve(Method method, Service& service) {
    endpoint_.serve(static_cast<rpc::MethodId>(method),
                    [&service](rpc::IncomingCall&& call) { (service.*kHandler)(std::move(call)); });
  }

  rpc::Endpoint& endpoint_;
  SessionOwners owners_;
  HeldShards shards_;
  Replies replies_;
  Admission admission_;
  ReadService reads_;
  WriteService writes_;
  absl::AnyInvocable<void()> on_drained_;
  std::unique_ptr<WorkerEngine> engine_;  // last: destroyed first, because its threads post to the mailbox
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_
