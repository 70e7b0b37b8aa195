// WorkerReplication: connects one worker's replicas with other nodes, by links, and with the rest of their own node.
//
//    ShardReplica --- send, send_entries ---> frames ---> PeerLinks ---> other nodes' workers
//         ^                                                   |
//         +---- on_replica_message <--- ShardServer <--- frames that came
//         +---- persist_view, report, fetch_view ---> the node's threads (ReplicationEvents)
//         +---- fetch_snapshot ---> SnapshotCopies ---> FETCH_CHUNK ---> SnapshotService of the primary's worker
//                                          +----------> FETCH_TAIL ----> serve_tail()
//
// A message that answers another one is sent as its response. The response to an Append waits until the Append's
// entries are as safe as they ask for. So a write needs no other message to a replica that keeps up.
//
// Thread: the worker's.
#ifndef SKUA_KVSTORE_WORKER_WORKER_REPLICATION_H_
#define SKUA_KVSTORE_WORKER_WORKER_REPLICATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kvstore/peers/peer_links.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/snapshot/snapshot_copy.h"
#include "kvstore/snapshot/snapshot_source.h"
#include "kvstore/types/node_log.h"
#include "kvstore/types/task_thread.h"
#include "kvstore/worker/open_appends.h"
#include "kvstore/worker/worker_commands.h"

namespace skua::kv {

/// Calls to the rest of the node. They come on the worker's thread and must not block.
struct ReplicationEvents {
  std::function<void(ShardId, const View&)> persist_view;  ///< answered by WorkerCommands::view_persisted()
  std::function<void(ShardId)> allow_unsynced;             ///< answered by WorkerCommands::unsynced_allowed()
  std::function<void(ShardId)> put_in_doubt;
  std::function<void(ShardId)> restored;
  std::function<void(ShardId, const ReplicaReport&)> report;
  std::function<void()> tick;  ///< runs ten times a second
  std::function<void()> fetch_map;
  /// The copies that are under way; about once a second, and with none when the last one has ended. May be null.
  std::function<void(const std::vector<CopyProgress>&)> copies;
  /// Replaces the shard's data with the snapshot at `path`.
  std::function<void(ShardId, const std::string& path)> install_copy;
  /// Builds a copy of a shard from what was fetched. Thread: the builder's.
  std::function<absl::StatusOr<std::unique_ptr<ShardCopy>>(ShardId, const std::string& path, const std::string& dir)>
      build_copy;
  std::function<void(LogSeverity, const std::string& line)> log;
  std::function<void(ShardId, const absl::Status&)> failed;
};

/// What copies of shards need. All outlive the worker. The threads are stopped after the worker was drained.
struct CopyResources {
  SnapshotSource* source = nullptr;
  TaskRunner* disk = nullptr;
  TaskRunner* builder = nullptr;
  CopySlots* slots = nullptr;
  SnapshotCopies::Options copies;
};

class WorkerReplication final : public ReplicaHost, public PeerLinksHost, public SnapshotCopyHost {
 public:
  WorkerReplication(ReplicaId self, ReplicationEvents events) : self_(self), events_(std::move(events)) {}
  WorkerReplication(const WorkerReplication&) = delete;
  WorkerReplication& operator=(const WorkerReplication&) = delete;

  /// Call it before the first shard. The arguments outlive the use of this object.
  void start(rpc::Endpoint& endpoint, PeerBootstrap& bootstrap, ShardServer& server, const PeerLinksOptions& options,
             ReaderPool& readers, const CopyResources& copying);
  /// Call after each poll. Returns how long the next poll may sleep at most, in ns.
  DurationNs tick();
  /// Ends all copies, from this worker and to it.
  void drain();
  /// Answers the Appends that wait, without content, and closes the links.
  void stop();

  /// The other nodes in the shard map. Nodes that are not in `peers` are forgotten, and their links are closed.
  void set_peers(std::span<const PeerInfo> peers);
  /// Nodes that are revoked: forgets them at once, and in set_peers() from now on. Replaces the ones before.
  void shut_out(std::set<NodeId> nodes);
  /// The place of each replica of the shard.
  void set_places(ShardId shard, const ReplicaPlaces& places) { places_[shard] = places; }
  /// The shard leaves the worker: answers the Appends that wait for its log, without content.
  void forget(ShardId shard);

  [[nodiscard]] const PeerLinksCounters& counters() const { return links_->counters(); }
  [[nodiscard]] std::vector<std::string> refusals() const { return links_->refusals(); }

 private:
  // ReplicaHost
  void send(ShardId shard, NodeId to, const ReplicaMessage& message) override;
  size_t send_entries(ShardId shard, NodeId to, const Append& append, std::span<Entry* const> entries) override;
  void persist_view(ShardId shard, const View& view) override { events_.persist_view(shard, view); }
  void allow_unsynced(ShardId shard) override { events_.allow_unsynced(shard); }
  void put_in_doubt(ShardId shard) override { events_.put_in_doubt(shard); }
  void restored(ShardId shard) override { events_.restored(shard); }
  void report(ShardId shard, const ReplicaReport& report) override { events_.report(shard, report); }
  void fetch_view(ShardId /*shard*/) override { events_.fetch_map(); }
  void fetch_snapshot(ShardId shard, NodeId from) override { copies_->wanted(shard, from, endpoint_->now_ns()); }
  void replica_failed(ShardId shard, const absl::Status& why) override { events_.failed(shard, why); }
  [[nodiscard]] const PeerInfo* peer(NodeId node) const override {
    const auto known = peers_.find(node);
    return known == peers_.end() ? nullptr : &known->second;
  }

  // PeerLinksHost
  void on_peer_message(PeerMessage&& message) override;
  void on_peer_ready(PeerAddress peer) override { server_->shards().on_link(peer.node, &Replica::peer_ready); }
  void on_peer_failed(PeerAddress peer, const absl::Status& why) override;
  void on_peer_room(PeerAddress peer) override { server_->shards().on_link(peer.node, &Replica::peer_has_room); }

  // SnapshotCopyHost
  bool fetch(ShardId shard, NodeId from, const FetchChunk& what, Fetched done) override;
  bool fetch_tail(ShardId shard, NodeId from, const FetchTail& what, Fetched done) override;
  bool on_disk(Work work, Worked done) override;
  bool on_builder(Work work, Worked done) override;
  std::optional<ReplicaPosition> position(ShardId shard) override;
  SnapshotFit fit(ShardId shard, EntryId end) override;
  absl::StatusOr<std::unique_ptr<ShardCopy>> build(ShardId shard, const std::string& path,
                                                   const std::string& directory) override {
    return events_.build_copy(shard, path, directory);
  }
  void install(ShardId shard, const std::string& path) override {
    server_->shards().retire(shard);
    events_.install_copy(shard, path);
  }
  std::string name_of(NodeId node) override;
  void tell(LogSeverity severity, const std::string& line) override { events_.log(severity, line); }

  [[nodiscard]] ReplicaEnvelope envelope(ShardId shard) const {
    return {shard.table_id, shard.shard, self_.node, self_.incarnation};
  }
  [[nodiscard]] const ReplicaPlace* place_of(ShardId shard, NodeId node) const;
  [[nodiscard]] absl::Status may_have_data(ShardId shard, PeerAddress peer) const;
  bool ask(ShardId shard, NodeId from, Method method, ByteSpan request, Fetched done);
  void serve_tail(rpc::IncomingCall&& call);
  void tell_copies(TimeNs now);
  void tell_lost(NodeId node, const absl::Status& why);

  const ReplicaId self_;
  const ReplicationEvents events_;
  rpc::Endpoint* endpoint_ = nullptr;
  std::shared_ptr<rpc::Mailbox> mailbox_;
  ShardServer* server_ = nullptr;
  CopyResources copying_;
  std::unique_ptr<PeerLinks> links_;
  std::set<NodeId> shut_out_;
  std::unique_ptr<SnapshotService> service_;
  std::unique_ptr<SnapshotCopies> copies_;
  std::map<NodeId, PeerInfo> peers_;
  std::map<ShardId, ReplicaPlaces> places_;
  std::unique_ptr<OpenAppends> open_appends_;
  // The sender of the message that is being handled, and the token for an immediate answer; null: none, or used.
  RemoteReplica answering_{};
  rpc::ReplyToken* answer_ = nullptr;
  std::vector<ReplicaEntry> entries_;
  std::vector<Entry*> tail_;
  std::map<NodeId, std::pair<absl::Status, TimeNs>> lost_;  // the last log line about each broken link, and its time
  TimeNs next_tick_ns_ = 0;                                 // when events_.tick is due
  TimeNs copies_told_ns_ = 0;  // when events_.copies ran last; 0: it was told that there are no copies
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_WORKER_WORKER_REPLICATION_H_
