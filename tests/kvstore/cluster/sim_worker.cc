#include "tests/kvstore/cluster/sim_worker.h"

#include <algorithm>
#include <utility>

#include "rpc/base/check.h"

namespace skua::kv::sim {

SimWorker::SimWorker(SimWire& wire, const SimWorkerOptions& options, PeerBootstrap& bootstrap, SimWorkerHost& host,
                     OpenLog log)
    : wire_(wire), host_(host), self_(options.self), address_(options.address) {
  transport_ = wire_.attach(address_, options.identity, [this] { host_.stirred(); });
  protected_ = wire_.protect(transport_);
  endpoint_ = std::make_unique<rpc::Endpoint>(*protected_, wire_.clock(), options.endpoint);
  // What replicas want goes to ShardServer::Options::replica_host, which need not be the replication.
  ReplicationEvents events;
  events.tick = [] {};
  events.log = [this](LogSeverity, const std::string& line) { host_.copying_says(line); };
  events.build_copy = [this](ShardId id, const std::string& path, const std::string& directory) {
    return host_.build_copy(id, path, directory);
  };
  events.install_copy = [this](ShardId id, const std::string& path) { host_.install_copy(id, path); };
  replication_ = std::make_unique<WorkerReplication>(self_, std::move(events));
  auto server = ShardServer::create(*endpoint_, readers_, options.server, std::move(log));
  SKUA_CHECK(server.ok(), std::string(server.status().message()).c_str());
  server_ = *std::move(server);
  replication_->start(*endpoint_, bootstrap, *server_, options.links, readers_, options.copying);
  server_->engine().bind_to_this_thread();
}

SimWorker::~SimWorker() {
  transport_->cut_off();
  wire_.enter();
  ending_ = true;
  bool drained = false;
  replication_->drain();
  server_->drain([&drained] { drained = true; });
  const auto is_done = [&] { return drained && server_->engine().counters().unfinished == 0; };
  for (int i = 0; i < 1000 && (i < 10 || !is_done()); ++i) {
    static_cast<void>(take_turn());
    static_cast<void>(server_->engine().step_log());
    static_cast<void>(server_->engine().step_applier());
  }
  SKUA_CHECK(is_done(), "a worker whose disk has failed answers all requests");
  replication_->stop();
  static_cast<void>(take_turn());
  wire_.detach(address_);
  endpoint_.reset();
  server_.reset();
}

SimWorker::Turn SimWorker::take_turn() {
  Turn turn;
  turn.work = endpoint_->poll();
  turn.wait_ns = std::min(server_->tick(), replication_->tick());
  while ((ending_ || host_.disk_reads()) && readers_.step()) ++turn.work;
  return turn;
}

// --- WorkerCommands

void SimWorker::expect(ShardId id, uint64_t epoch) {
  enter();
  server_->shards().expect(id, epoch);
}

void SimWorker::serve(ShardId id, ShardDb& db) {
  enter();
  server_->shards().serve(id, db);
}

void SimWorker::serve_replica(ShardId id, ShardDb& db, const ReplicaNotes& notes) {
  enter();
  server_->shards().serve_replica(id, db, self_, notes);
  host_.opened(id, notes);
}

void SimWorker::set_view(ShardId id, const View& view, const ReplicaPlaces& places) {
  enter();
  host_.told(id, view);
  replication_->set_places(id, places);
  server_->shards().set_view(id, view);
  host_.changed(id);
}

void SimWorker::view_persisted(ShardId id, uint64_t epoch) {
  enter();
  server_->shards().view_persisted(id, epoch);
  host_.changed(id);
}

void SimWorker::unsynced_allowed(ShardId id) {
  enter();
  server_->shards().unsynced_allowed(id);
  host_.changed(id);
}

void SimWorker::set_peers(std::vector<PeerInfo> peers) {
  enter();
  replication_->set_peers(peers);
}

void SimWorker::set_failed(ShardId id, std::string why) {
  enter();
  server_->shards().set_failed(id, std::move(why));
}

void SimWorker::remove(ShardId id, std::function<void()> on_idle) {
  enter();
  replication_->forget(id);
  server_->shards().remove(id, std::move(on_idle));
}

void SimWorker::set_map_revision(uint64_t revision) {
  enter();
  server_->set_map_revision(revision);
}

}  // namespace skua::kv::sim
