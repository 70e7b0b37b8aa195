// ShardServer: answers the key-value service's requests for the shards that one worker holds.
//
//            request                        +-----------------------------------------------+
//   Endpoint -------> handler --admit------>| shard table  (table, shard) -> epoch, engine  |
//      ^                |                   +-----------------------------------------------+
//      |                |  deadline passed, unknown shard, wrong epoch, opening: answered at once
//      |                v
//      |   GET, MULTI_GET   engine: memory --- hit, known to be absent ---> answered at once
//      |                       `-- a miss: the engine fetches, or ReaderPool ---+
//      |   SCAN             engine: is it applied? --------> ReaderPool --------+-- mailbox --> answer
//      |   mutations        engine: evaluated, logged, in memory ---------------+
//      +------------------------------------------------------------------------------- replies
//
// A shard is served in one epoch of its assignment. A request is answered WRONG_SHARD, with what this worker knows, if
// it names another epoch or a shard that is not here, if the shard is being opened or cannot be opened, or if the node
// shuts down. This status tells a client two things: the request was certainly not executed, and the client should try
// again with a fresh map. If this worker is the one that has not seen the newest map, the observer of on_newer_map() is
// told.
//
// remove() takes a shard from the table at once. Requests that are being served keep the shard (HeldShard::use_count).
// `on_idle` runs when the last of them is answered and the engine has closed the shard. Only then may the database be
// closed.
#ifndef SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_
#define SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "kvstore/codec/reply.h"
#include "kvstore/service/pending_request.h"
#include "kvstore/service/reply_page.h"
#include "kvstore/service/service_limits.h"
#include "kvstore/service/shard_table.h"
#include "kvstore/service/stats.h"
#include "kvstore/shard/shard_clock.h"
#include "kvstore/shard/shard_replica.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/machine_clock.h"
#include "kvstore/types/worker_mutants.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// A shard as its worker sees it.
struct HeldShard {
  enum class State : uint8_t {
    kOpening,  // assigned to this worker; its data are not open yet
    kServing,
    kFailed,  // its data cannot be opened; HeldShard::why has the reason
  };

  ShardId id;
  uint64_t epoch = 0;
  /// Requests that name this epoch are served without further checks. 0: each request needs the full checks of admit().
  uint64_t plain_epoch = 0;
  State state = State::kOpening;
  std::string why;
  Shard* shard = nullptr;                 ///< kServing; owned by the engine
  std::unique_ptr<ShardReplica> replica;  ///< kServing, and replicated
  /// The epoch in which the shard answers requests. A replica may already have another epoch than `epoch`.
  [[nodiscard]] uint64_t read_epoch() const { return replica == nullptr ? epoch : replica->replica().view().epoch; }
  [[nodiscard]] bool reads_as_backup() const { return replica != nullptr && replica->reads_as_backup(); }
  /// Requests that use the shard. Replies are not counted, because a caller may keep them for ever.
  size_t use_count = 0;
  uint64_t removed_ms = 0;  ///< unix time
  /// Set when the shard is removed. At use_count 0 the engine is asked to close the shard; then this runs.
  absl::AnyInvocable<void()> on_idle;
};

/// A worker's log as recovery left it, and the log's device.
struct OpenLog {
  std::unique_ptr<Device> device;
  std::unique_ptr<Log> log;
};

/// Thread: the endpoint's, except for stop_engine() and methods that say otherwise. The server is made after the
/// endpoint and destroyed after it, because replies that the endpoint still holds lie in the server's pages and in the
/// engine's memory. The reader pool and the databases outlive both.
class ShardServer {
 public:
  struct Options {
    /// The engine's memory is registered with the endpoint.
    WorkerEngine::Options engine;
    size_t pending_max = kPendingRequestsMax;
    ShardReplica::Options replica;
    ReplicaHost* replica_host = nullptr;                  ///< outlives the server; null: no shard is replicated
    const MachineClock* clock = &MachineClock::system();  ///< outlives the server
  };

  /// Registers the handlers of the service's methods at `endpoint` and starts the engine's threads. Errors: the
  /// engine's memory cannot be allocated, or not be registered.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardServer>> create(rpc::Endpoint& endpoint, ReaderPool& readers,
                                                                           const Options& options, OpenLog log);
  /// No request may wait for the engine or the reader pool any longer (checked).
  ~ShardServer();
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;

  /// Call once, on the thread that polls the endpoint.
  void bind_to_this_thread() { engine_->bind_to_this_thread(); }
  /// Call after each poll. Returns how long the next poll may sleep at most, in ns, so that replicas keep their
  /// deadlines.
  DurationNs tick();

  // --- The shards. set_*() and remove() ignore ids that are not held.
  /// Holds the shard as one that is being opened. If the shard is held already, gives it a new epoch.
  void expect(ShardId id, uint64_t epoch);
  /// From now on the shard is served from `db` and from the engine's memory and log. `db` stays open until `on_idle` of
  /// remove() has run.
  void serve(ShardId id, ShardDb& db);
  /// The same for a replica. `self` is this node; `notes` has the last view that was made durable here.
  void serve_replica(ShardId id, ShardDb& db, ReplicaId self, const ReplicaNotes& notes);
  /// Inputs of the shard's replica: see ShardReplica. set_view() sets the shard's epoch, too.
  void set_view(ShardId id, const View& view);
  void view_persisted(ShardId id, uint64_t epoch);
  void unsynced_allowed(ShardId id);
  /// False: there is no replica of the shard here (yet). `entries`: those of an Append.
  bool on_replica_message(ShardId id, NodeId from, const ReplicaMessage& message,
                          std::span<const ReplicaEntry> entries);
  void peer_failed(NodeId peer);
  /// The link to the node has room, for the first time or again.
  void peer_ready(NodeId peer);
  /// The shard as it is held here; null: it is not.
  [[nodiscard]] const HeldShard* shard(ShardId id) const { return table_.find(id); }
  /// The state of the shard's replica; null: there is none here.
  [[nodiscard]] const Replica* replica(ShardId id) const;
  /// Like the methods of ShardReplica, for a copy of the shard's database. UNAVAILABLE: this node does not lead the
  /// shard, or the shard is not open yet.
  [[nodiscard]] absl::StatusOr<uint64_t> hold_entries(ShardId id);
  void release_entries(ShardId id, uint64_t hold);
  [[nodiscard]] absl::StatusOr<Append> read_tail(ShardId id, NodeId reader, uint64_t after, size_t bytes_max,
                                                 std::vector<Entry*>& pinned);
  /// The shard's replica stops sending and taking messages and writes, because its data are about to be replaced. Until
  /// the shard is served again.
  void retire(ShardId id);
  /// The shard's data cannot be opened. Requests are answered with the reason `why`.
  void set_failed(ShardId id, std::string why);
  /// No further request of the shard is served. `on_idle` runs once, when nothing uses the database any longer and the
  /// database has everything; at once if the shard was never served.
  void remove(ShardId id, absl::AnyInvocable<void()> on_idle);
  /// The revision of the newest map whose changes have been made here. Every reply tells it.
  void set_map_revision(uint64_t revision) { map_revision_ = revision; }
  /// OK, or why writes that make data grow are refused. Repetitions of writes that were executed are answered all the
  /// same.
  void set_growth(absl::Status growth) { growth_ = std::move(growth); }
  /// `observer` runs when a client names a newer map than this worker knows, at most once per kMapHintPauseNs.
  void on_newer_map(absl::AnyInvocable<void()> observer) { newer_map_observer_ = std::move(observer); }

  // --- The end
  /// From now on requests are answered WRONG_SHARD. `on_drained` runs when all requests that were accepted have been
  /// answered.
  void drain(absl::AnyInvocable<void()> on_drained = {});
  /// Applies and flushes everything. Call it after `on_drained` has run. Thread: any but the endpoint's, which must go
  /// on polling. False: the log had failed.
  bool stop_engine() {
    engine_->stop();
    return engine_->log_writer_health().ok();
  }
  /// For an engine without threads (Options::engine): one round of a thread's work, or of both. False: there was nothing
  /// to do.
  bool step_log() { return engine_->step_log(); }
  bool step_applier() { return engine_->step_applier(); }
  bool step_engine() {
    const bool logged = step_log();
    return step_applier() || logged;
  }
  [[nodiscard]] const WorkerEngine& engine() const { return *engine_; }
  /// Requests whose result is not back yet.
  [[nodiscard]] size_t waiting_count() const { return waiting_count_; }

  /// The counters of this worker. The caller fills in those of the endpoint and the transport.
  [[nodiscard]] WorkerStats stats() const;

  // --- For pending requests.
  /// The reader pool has done a request's read. Thread: a reader's.
  void read_done(PendingRequest& pending);

 private:
  struct GatheredGet;

  ShardServer(rpc::Endpoint& endpoint, ReaderPool& readers, const Options& options);
  [[nodiscard]] absl::Status start(const Options& options, OpenLog log);
  /// Requests of this method go to `kHandler`, by a call that is known when this is compiled.
  template <auto kHandler>
  void serve(Method method) {
    endpoint_.serve(static_cast<rpc::MethodId>(method),
                    [this](rpc::IncomingCall&& call) { (this->*kHandler)(std::move(call)); });
  }

  // shard_server.cc: what all methods share.
  /// admit(): the shard that serves the request. Null: the request was answered.
  HeldShard* admit(rpc::IncomingCall& call, Method method);
  HeldShard* admit(rpc::IncomingCall& call, Method method, const Route& route);
  HeldShard* refuse(rpc::IncomingCall& call, Method method, const Route& route, const HeldShard* shard);
  [[nodiscard]] ReplyHead head_of(const HeldShard& shard, KvStatus status, uint64_t version = 0,
                                  std::string_view text = {}) const {
    return {status, version, shard.epoch, map_revision_, shard.shard->indices().committed, text};
  }
  void tell_of_newer_map();
  void answer(rpc::ReplyToken& reply, Method method, KvStatus status, rpc::MessagePtr message);
  void answer_error(rpc::ReplyToken& reply, Method method, const ReplyHead& head);
  void answer_failure(rpc::ReplyToken& reply, Method method, const HeldShard& shard, const absl::Status& why);
  /// A pending request that takes over the lease and the token. Null: there are too many, and the request was answered.
  PendingRequest* begin(rpc::Lease& request, rpc::ReplyToken& reply, Method method, HeldShard& shard);
  void end(PendingRequest& pending);
  void forget_if_idle(HeldShard& shard);
  [[nodiscard]] std::vector<LeavingShard> leaving() const;

  void tell_time(TimeNs now);

  // shard_server_replicas.cc
  [[nodiscard]] DurationNs tick_replicas();
  /// True: a value that was looked up before `now` is linearizable.
  [[nodiscard]] static bool is_fresh(const HeldShard& shard, TimeNs now) {
    return shard.replica == nullptr || shard.replica->may_read(now) || worker_mutant(WorkerMutant::kReadWithoutLease);
  }
  [[nodiscard]] bool serves(const HeldShard& shard, Method method) const;
  void refuse_unsettled(rpc::ReplyToken& reply, Method method, const HeldShard& shard);
  void count_backup_read(const HeldShard& shard) { stats_.backup_reads += shard.reads_as_backup() ? 1 : 0; }
  [[nodiscard]] bool hold_until_fresh(PendingRequest& pending, void (ShardServer::*then)(PendingRequest&));
  void refuse_stale(PendingRequest& pending);
  void confirm_get(GatheredGet& get);
  [[nodiscard]] bool takes_writes(rpc::IncomingCall& call, Method method, const HeldShard& shard);
  void retire_replica(HeldShard& shard);

  // shard_server_reads.cc
  void on_get(rpc::IncomingCall&& call);
  void answer_gathered();
  void on_special_get(rpc::IncomingCall&& call);
  void gather(HeldShard& shard, const GetRequest& request, rpc::Lease& bytes, rpc::ReplyToken& reply, bool confirmed);
  /// `now`: a time after the key was looked up; used only if the shard has replicas.
  void answer_get(GatheredGet& get, const ItemKey& key, MemoryTier::Lookup& found, TimeNs now);
  void on_multi_get(rpc::IncomingCall&& call);
  void on_scan(rpc::IncomingCall&& call);
  [[nodiscard]] uint64_t remaining_ms(bool wants_ttl, uint64_t expires_at) const;
  void answer_inline(rpc::ReplyToken& reply, const HeldShard& shard, const PinnedValue& value);
  rpc::MessagePtr value_head(const HeldShard& shard, const PinnedValue& value, uint64_t ttl_ms);
  /// Where the value's bytes lie.
  enum class ValuePlace : uint8_t { kMemoryTier, kCopy };
  void answer_value(rpc::ReplyToken& reply, HeldShard& shard, PinnedValue& value, ValuePlace place, uint64_t ttl_ms);
  void answer_copy(rpc::ReplyToken& reply, HeldShard& shard, PinnedValue&& value, uint64_t ttl_ms);
  void answer_no_room(rpc::ReplyToken& reply, Method method, const HeldShard& shard);
  void fetch_done(FetchOp& op);
  void answer_fetched(PendingRequest& pending);
  void applied(AppliedWait& wait);
  void submit_read(PendingRequest& pending);
  void finish_read(PendingRequest& pending);
  void answer_page(PendingRequest& pending);
  void send_page(PendingRequest& pending);
  void lend_page(PendingRequest& pending, ByteSpan bytes, rpc::Lease&& share, rpc::Message& message);

  // shard_server_writes.cc
  void on_put(rpc::IncomingCall&& call);
  void on_delete(rpc::IncomingCall&& call);
  void on_patch(rpc::IncomingCall&& call);
  void on_add(rpc::IncomingCall&& call);
  void on_append(rpc::IncomingCall&& call);
  void on_expire(rpc::IncomingCall&& call);
  void on_batch(rpc::IncomingCall&& call);
  [[nodiscard]] bool may_grow(const HeldShard& shard, const RequestId& id) const;
  template <typename Request>
  void write(rpc::IncomingCall& call, Method method, HeldShard& shard, const Request& request,
             const Mutation& mutation);
  void start_write(PendingRequest& pending, const RequestId& id, Durability durability);
  rpc::MessagePtr write_reply(PendingRequest& pending);
  void write_done(WriteOp& op);
  void finish_write(PendingRequest& pending);
  void answer_write(PendingRequest& pending);

  rpc::Endpoint& endpoint_;
  const std::shared_ptr<rpc::Mailbox> mailbox_;
  ReaderPool& readers_;
  PendingRequestPool pool_;
  ReplyPagePool short_pages_{kShortReplyBytesMax};
  ReplyPagePool pages_{kReplyBufferBytesKept};
  ShardTable<HeldShard> table_;
  std::vector<std::unique_ptr<HeldShard>> shards_;  // also removed ones that requests still use
  const ShardReplica::Options replica_options_;
  ReplicaHost* const replica_host_;
  size_t replica_count_ = 0;  // of shards_
  uint64_t map_revision_ = 0;
  const MachineClock& clock_;
  TimeNs next_time_ns_ = 0;  // when the engine is told the time next
  LivedTime lived_;
  TimeNs next_map_hint_ns_ = 0;
  absl::AnyInvocable<void()> newer_map_observer_;
  bool draining_ = false;
  absl::Status growth_;
  size_t waiting_count_ = 0;
  // The GETs of this burst. They are looked up together at its end.
  size_t gathered_count_ = 0;
  struct GatheredGet {
    HeldShard* shard = nullptr;
    rpc::Lease request;
    rpc::ReplyToken reply;
    bool wants_ttl = false;
    bool confirmed = false;
  };
  std::array<GatheredGet, Index::kBatch> gathered_;
  std::array<ItemKey, Index::kBatch> gathered_keys_;
  std::array<MemoryTier::Lookup, Index::kBatch> gathered_found_;
  RequestStats stats_;
  absl::AnyInvocable<void()> on_drained_;
  std::unique_ptr<WorkerEngine> engine_;  // last: destroyed first, because its threads post to the mailbox
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_
