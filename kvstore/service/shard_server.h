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
// A shard is served in one epoch of its assignment. A request that names another epoch, or a shard
// that is not here, is answered WRONG_SHARD with what this worker knows; so is one that comes while the
// shard is being opened, cannot be opened, or the node shuts down. That status tells a client that the
// request did certainly not run, and to try again with a fresh map. If it is this side that has not
// seen the newest map, on_newer_map() tells whoever keeps it.
//
// Removing a shard takes it from the table at once; requests that are being served keep it
// (HeldShard::use_count), and `on_idle` runs when the last one is answered and its memory is
// back: only then may the database be closed.
#ifndef SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_
#define SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
#include "rpc/endpoint.h"

namespace skua::kv {

/// A shard as its worker sees it.
struct HeldShard {
  enum class State : uint8_t {
    kOpening,  // assigned to us; its data is not open yet
    kServing,
    kFailed,  // its data cannot be opened; `why` says why
  };

  ShardId id;
  uint64_t epoch = 0;
  /// Requests that name it are served, whatever they are; 0: that needs a closer look.
  uint64_t plain_epoch = 0;
  State state = State::kOpening;
  std::string why;
  EngineShard* engine = nullptr;          ///< kServing
  std::unique_ptr<ShardReplica> replica;  ///< kServing, and replicated
  /// In which it answers. A replica may have left the epoch that it is known by here.
  [[nodiscard]] uint64_t read_epoch() const { return replica == nullptr ? epoch : replica->replica().view().epoch; }
  [[nodiscard]] bool reads_as_backup() const { return replica != nullptr && replica->reads_as_backup(); }
  /// Requests that use it. Replies do not: a caller may keep them for ever.
  size_t use_count = 0;
  uint64_t removed_ms = 0;  ///< unix time
  /// Set when removed: runs when the engine has let go, which is asked to at use_count 0.
  absl::AnyInvocable<void()> on_idle;
};

/// A worker's log as recovery left it.
struct OpenLog {
  std::unique_ptr<Device> device;
  std::unique_ptr<Log> log;
};

/// Thread: the endpoint's, but for stop_engine() and what is marked. Made after the endpoint and
/// destroyed after it, because replies that the endpoint still holds lie in pending requests and in the
/// engine's memory; the reader pool and the databases outlive both.
class ShardServer {
 public:
  struct Options {
    /// The memory's mappings are registered with the endpoint.
    WorkerEngine::Options engine;
    size_t pending_max = kPendingRequestsMax;
    ShardReplica::Options replica;
    ReplicaHost* replica_host = nullptr;  ///< outlives the server; null: no shard is replicated
    uint64_t (*unix_ms)() = nullptr;      ///< the time of day, for what expires; null: the system's. Thread: any
    TimeNs (*boot_time_ns)() = nullptr;   ///< what promises between replicas are measured by; null: the machine's
  };

  /// Registers the handlers of the service's methods at `endpoint` and starts the engine's threads. Errors: the memory
  /// cannot be had, or not be registered.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardServer>> create(rpc::Endpoint& endpoint, ReaderPool& readers,
                                                                           const Options& options, OpenLog log);
  /// Nothing may wait for the engine or the reader pool any longer (checked).
  ~ShardServer();
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;

  /// Once, on the thread that polls the endpoint.
  void bind_to_this_thread() { engine_->bind_to_this_thread(); }
  /// After each poll. How long the next one may sleep at most, so that replicas keep their times.
  DurationNs tick();

  // --- The shards. Ids that are not held are ignored by set_* and remove().
  /// Holds the shard, opening; or gives the one that is held a new epoch.
  void expect(ShardId id, uint64_t epoch);
  /// From now on the shard is served from `db` and what the engine has in memory and log; it stays open until `on_idle`
  /// of remove().
  void serve(ShardId id, ShardDb& db);
  /// The same for a replica: `self` in `view`, the last one that was made durable here.
  void serve_replica(ShardId id, ShardDb& db, ReplicaId self, const ReplicaNotes& notes);
  void set_view(ShardId id, const View& view);
  void view_persisted(ShardId id, uint64_t epoch);
  void unsynced_allowed(ShardId id);
  /// False: the shard has no replica here, or not yet. `entries`: an Append's.
  bool on_replica_message(ShardId id, NodeId from, const ReplicaMessage& message,
                          std::span<const ReplicaEntry> entries);
  void peer_failed(NodeId peer);
  /// There is room, again or for the first time, on the way to the node.
  void peer_ready(NodeId peer);
  /// What the replica knows; null: none.
  [[nodiscard]] const Replica* replica(ShardId id) const;
  /// As ShardReplica's, for a copy of the shard's database. UNAVAILABLE: this is not the shard's primary, or not ready yet.
  [[nodiscard]] absl::StatusOr<uint64_t> hold_entries(ShardId id);
  void release_entries(ShardId id, uint64_t hold);
  [[nodiscard]] absl::StatusOr<Append> read_tail(ShardId id, NodeId reader, uint64_t after, size_t bytes_max,
                                                 std::vector<ReplicaRecord*>& pinned);
  /// The replica says and takes nothing any more: its data are about to be replaced. Until the shard is served again.
  void retire(ShardId id);
  /// The shard's data cannot be opened: requests are told `why`.
  void set_failed(ShardId id, std::string why);
  /// No further request is served. `on_idle` runs once nothing uses the database any longer and it has everything;
  /// at once if the shard was never served.
  void remove(ShardId id, absl::AnyInvocable<void()> on_idle);
  /// The newest map whose changes have been made here; told in every reply.
  void set_map_revision(uint64_t revision) { map_revision_ = revision; }
  /// OK, or why writes that make data grow are refused. Repetitions of what was done are answered all the same.
  void set_growth(absl::Status growth) { growth_ = std::move(growth); }
  /// `observer` runs when a client names a newer map than is known here; not more often than each kMapHintPauseNs.
  void on_newer_map(absl::AnyInvocable<void()> observer) { newer_map_observer_ = std::move(observer); }

  // --- The end
  /// From now on requests are answered WRONG_SHARD. `on_drained` runs when all that were accepted have been answered.
  void drain(absl::AnyInvocable<void()> on_drained = {});
  /// Applies and flushes everything. After `on_drained` ran. Thread: any but the endpoint's, which must go on polling. False: the log had
  /// failed.
  bool stop_engine() {
    engine_->stop();
    return engine_->log_writer_health().ok();
  }
  /// With an engine without threads (Options::engine): one round of what they would do. False: there is nothing to do.
  bool step_engine() {
    const bool logged = engine_->step_log();
    return engine_->step_applier() || logged;
  }
  /// Requests whose result is not back yet.
  [[nodiscard]] size_t waiting_count() const { return waiting_count_; }

  /// Counters; endpoint's and transport's are the caller's to fill in.
  [[nodiscard]] WorkerStats stats() const;

  // --- For pending requests.
  /// A read is done. Thread: a reader's.
  void read_done(PendingRequest& pending);

 private:
  struct GatheredGet;

  ShardServer(rpc::Endpoint& endpoint, ReaderPool& readers, const Options& options);
  [[nodiscard]] absl::Status start(const Options& options, OpenLog log);

  // shard_server.cc: what all methods share.
  /// Null: it was answered.
  HeldShard* admit(rpc::IncomingCall& call, Method method);
  HeldShard* admit(rpc::IncomingCall& call, Method method, const Route& route);
  HeldShard* refuse(rpc::IncomingCall& call, Method method, const Route& route, const HeldShard* shard);
  [[nodiscard]] ReplyHead head_of(const HeldShard& shard, KvStatus status, uint64_t version = 0,
                                  std::string_view text = {}) const {
    return {status, version, shard.epoch, map_revision_, WorkerEngine::committed_index(*shard.engine), text};
  }
  void tell_of_newer_map();
  void answer(rpc::ReplyToken& reply, Method method, KvStatus status, rpc::MessagePtr message);
  void answer_error(rpc::ReplyToken& reply, Method method, const ReplyHead& head);
  void answer_failure(rpc::ReplyToken& reply, Method method, const HeldShard& shard, const absl::Status& why);
  /// A pending request, which takes the lease and the token; null if there are too many (answered).
  PendingRequest* begin(rpc::Lease& request, rpc::ReplyToken& reply, Method method, HeldShard& shard);
  void end(PendingRequest& pending);
  void forget_if_idle(HeldShard& shard);
  [[nodiscard]] std::vector<LeavingShard> leaving() const;

  void tell_time(TimeNs now);

  // shard_server_replicas.cc
  [[nodiscard]] DurationNs tick_replicas();
  /// What was looked up before `now` is linearizable.
  [[nodiscard]] static bool is_fresh(const HeldShard& shard, TimeNs now) {
    return shard.replica == nullptr || shard.replica->may_read(now);
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
  /// `now`: a time after the key was looked up, if its shard has replicas.
  void answer_get(GatheredGet& get, const ItemKey& key, MemoryTier::Lookup& found, TimeNs now);
  void on_multi_get(rpc::IncomingCall&& call);
  void on_scan(rpc::IncomingCall&& call);
  [[nodiscard]] uint64_t remaining_ms(bool wants_ttl, uint64_t expires_at) const;
  void answer_inline(rpc::ReplyToken& reply, const HeldShard& shard, const PinnedValue& value);
  rpc::MessagePtr value_head(const HeldShard& shard, const PinnedValue& value, uint64_t ttl_ms);
  /// What keeps the value's bytes.
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
  std::vector<std::unique_ptr<HeldShard>> shards_;  // also those removed and still used
  const ShardReplica::Options replica_options_;
  ReplicaHost* const replica_host_;
  absl::flat_hash_map<const EngineShard*, HeldShard*> replicated_;
  uint64_t map_revision_ = 0;
  uint64_t (*const unix_ms_)();
  TimeNs (*const boot_time_ns_)();
  TimeNs next_time_ns_ = 0;  // when the engine is told the time of day again
  LivedTime lived_;
  TimeNs next_map_hint_ns_ = 0;
  absl::AnyInvocable<void()> newer_map_observer_;
  bool draining_ = false;
  absl::Status growth_;
  size_t waiting_count_ = 0;
  // The GETs of this burst: looked up together at its end.
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
  std::unique_ptr<WorkerEngine> engine_;  // last: its threads post to the mailbox
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SHARD_SERVER_H_
