// Worker: one polling thread with its endpoint, its shards and its storage engine.
//
//      other threads                         the worker's thread
//      shard manager, gRPC --- mailbox --->  poll_or_wait(): mailbox, receive, handlers, transmit
//      log, applier, readers --- mailbox ->     Endpoint --- ShardServer --- WorkerEngine --- databases (not owned)
//
// Nothing here is locked: other threads post tasks to the mailbox. The worker's thread polls. It never waits for a
// disk, and sleeps only in the transport's wait (adaptive polling), or together with a loop that it hosts
// (worker_guest.h).
//
// The end has these steps, in this order. Each step needs something that a later step ends:
//   (a hosted loop ends, see host())
//   drain()        requests are refused from now on; returns when all requests that were accepted have been answered
//   stop_engine()  everything is applied and flushed, the log is closed; the thread still polls
//   (the reader pool stops)
//   stop()         answers leave, the endpoint is destroyed on its own thread, the thread is joined
//   ~Worker        server, transport
#ifndef SKUA_KVSTORE_WORKER_WORKER_H_
#define SKUA_KVSTORE_WORKER_WORKER_H_

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/worker/worker_commands.h"
#include "kvstore/worker/worker_guest.h"
#include "kvstore/worker/worker_replication.h"
#include "rpc/base/clock.h"
#include "rpc/base/hosted_loop.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// How long OpenSession and admin requests wait for an answer of a worker.
inline constexpr DurationNs kWorkerAnswerTimeoutNs = 2 * kSecond;

struct WorkerOptions {
  uint32_t index = 0;
  rpc::EndpointOptions endpoint;
  ShardServer::Options server;
  // For replicas.
  ReplicaId self;
  PeerLinksOptions links;
  ReplicationEvents replication;
  CopyResources copying;
  PeerBootstrap* bootstrap = nullptr;  ///< outlives the worker; null: no shard is replicated
};

/// Thread: any but the worker's own. One thread starts the worker and ends it.
class Worker final : public WorkerCommands {
 public:
  /// Starts the thread. The reader pool and the clock outlive the worker. The worker must stop before the databases
  /// that it was given are closed. Errors: those of ShardServer::create().
  static absl::StatusOr<std::unique_ptr<Worker>> create(const WorkerOptions& options,
                                                        std::unique_ptr<rpc::Transport> transport, const Clock& clock,
                                                        ReaderPool& readers, OpenLog log);
  /// Calls drain(), stop_engine() and stop() if that was not done. The reader pool must be stopped.
  ~Worker() override;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] uint32_t index() const { return options_.index; }
  /// Tells peers how to reach the endpoint.
  [[nodiscard]] const rpc::Descriptor& descriptor() const { return descriptor_; }

  // WorkerCommands. The calls take effect later, on the worker's thread, in their order. A call waits for room in the
  // mailbox. After stop() the calls do nothing.
  void expect(ShardId id, uint64_t epoch) override {
    post([id, epoch](ShardServer& server) { server.shards().expect(id, epoch); });
  }
  void serve(ShardId id, ShardDb& db) override {
    post([id, &db](ShardServer& server) { server.shards().serve(id, db); });
  }
  void serve_replica(ShardId id, ShardDb& db, const ReplicaNotes& notes) override {
    post([this, id, &db, notes](ShardServer& server) { server.shards().serve_replica(id, db, options_.self, notes); });
  }
  void set_view(ShardId id, const View& view, const ReplicaPlaces& places) override;
  void view_persisted(ShardId id, uint64_t epoch) override {
    post([id, epoch](ShardServer& server) { server.shards().view_persisted(id, epoch); });
  }
  void unsynced_allowed(ShardId id) override {
    post([id](ShardServer& server) { server.shards().unsynced_allowed(id); });
  }
  void set_peers(std::vector<PeerInfo> peers) override;
  void set_failed(ShardId id, std::string why) override {
    post([id, why = std::move(why)](ShardServer& server) mutable { server.shards().set_failed(id, std::move(why)); });
  }
  void remove(ShardId id, std::function<void()> on_idle) override;
  void set_map_revision(uint64_t revision) override {
    post([revision](ShardServer& server) { server.set_map_revision(revision); });
  }

  /// Like HeldShards' methods. Also UNAVAILABLE if the worker stops or does not answer within kWorkerAnswerTimeoutNs.
  absl::StatusOr<uint64_t> hold_entries(ShardId id);
  /// The epoch of an entry in the log of the shard's replica; 0: not known (any more), or the worker did not answer.
  uint64_t epoch_of(ShardId id, uint64_t index);

  /// Runs `task`, which must not block, on the worker's thread, as the calls of WorkerCommands.
  void post(absl::AnyInvocable<void(ShardServer&)> task);

  /// The endpoint's answer to a session offer of origin.principal (session_owners.h). PERMISSION_DENIED: it is revoked.
  /// RESOURCE_EXHAUSTED: it has as many sessions as its quota says.
  /// UNAVAILABLE if the worker stops or does not answer within kWorkerAnswerTimeoutNs.
  absl::StatusOr<std::string> accept_offer(const std::string& offer, const rpc::OfferOrigin& origin);
  /// Identities that are revoked: closes their sessions, and takes none of theirs from now on.
  void set_denied(std::vector<std::string> denied);
  /// The worker's counters. Errors: as accept_offer().
  absl::StatusOr<WorkerStats> stats();
  /// Asks for them and does not wait. The future has no state if the worker is stopping or its mailbox
  /// is full. It has std::future_error if the worker stops first.
  std::future<WorkerStats> ask_stats();

  /// Runs `loop` on the worker's thread, beside what else runs there. The future is ready when the loop has ended,
  /// which must be before stop(). One loop at a time. UNAVAILABLE: the worker is stopping.
  absl::StatusOr<std::future<void>> host(HostedLoop& loop);

  /// The steps of the end: see the head of this file.
  void drain();
  /// False: the log had failed.
  bool stop_engine() { return server_->engine().stop(); }
  void stop();

 private:
  Worker(const WorkerOptions& options, std::unique_ptr<rpc::Transport> transport, const Clock& clock);
  void run();
  DurationNs tick();
  void flush();
  /// Runs `question` on the worker's thread. No state: the worker is stopping, or its mailbox is full.
  template <typename T>
  std::future<T> ask_later(std::function<T()> question);
  /// As ask_later(), and waits for the result.
  template <typename T>
  absl::StatusOr<T> ask(std::function<T()> question);
  WorkerStats collect_stats() const;
  absl::StatusOr<std::string> accept(const std::string& offer, const rpc::OfferOrigin& origin);
  [[nodiscard]] bool has_ended(rpc::SessionId session) const { return endpoint_->session_nonce(session) == 0; }

  const WorkerOptions options_;
  const Clock& clock_;
  const std::unique_ptr<rpc::Transport> transport_;
  std::unique_ptr<WorkerReplication> replication_;  // replication and server outlive the endpoint
  std::unique_ptr<ShardServer> server_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
  const std::shared_ptr<rpc::Mailbox> mailbox_;
  const rpc::Descriptor descriptor_;
  // Used by the worker's thread only:
  bool stopping_ = false;
  std::unique_ptr<WorkerGuest> guest_;  // null: no loop is hosted
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_WORKER_WORKER_H_
