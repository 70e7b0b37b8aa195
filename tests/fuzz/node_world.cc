#include "tests/fuzz/node_world.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/log/log_recovery.h"
#include "kvstore/node/node.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/shard_life.h"
#include "rpc/base/check.h"
#include "tests/kvstore/log/sim_device.h"

namespace skua::kv::fuzz {
namespace {

constexpr char kCluster[] = "c0ffee00-0000-4000-8000-000000000000";
constexpr char kPeerGrpc[] = "peer:7401";
constexpr size_t kSegmentBytes = 256 << 10;
constexpr size_t kRowsMax = 2000;
constexpr DurationNs kPeerTimeoutNs = 400 * kMillisecond;
constexpr DurationNs kHeartbeatNs = 200 * kMillisecond;
/// While time passes nobody looks at the clock more often: each time so many times, and not after less than this.
constexpr int kLooks = 12;
constexpr DurationNs kLookNs = 2 * kMillisecond;
/// What a tick of the links asks for when nothing is due.
constexpr DurationNs kNothingDueNs = 100 * kMillisecond;
/// An input that keeps the world busy for so many turns has found a loop.
constexpr int kTurnsMax = 200'000;

LogOptions log_options() {
  LogOptions options;
  options.segment_bytes = kSegmentBytes;
  options.group_bytes_max = kSegmentBytes / 2;
  options.segments_max = 16;
  options.reserve_segments = 1;
  options.spares_at_open = 1;
  options.spares_max = 1;
  return options;
}

rpc::EndpointOptions endpoint_options(uint64_t seed) {
  rpc::EndpointOptions options;
  options.simulation_seed = seed;
  options.protocol.window = 16;
  options.protocol.message_max_bytes = 256 << 10;
  options.protocol.ping_after_ns = kPeerTimeoutNs / 3;
  options.protocol.peer_timeout_ns = kPeerTimeoutNs;
  options.protocol.idle_timeout_ns = kIdleTimeoutNs;
  options.protocol.abandoned_after_ns = kPeerTimeoutNs;
  options.sessions_max = 24;
  options.sessions_reserved = 8;
  options.sessions_per_peer_max = 16;
  options.handlers_max = 256;
  options.handlers_reserved = 32;
  options.calls_max = 1024;
  options.memory_limit_bytes = 8 << 20;
  return options;
}

ShardServer::Options server_options(ReplicaHost& host, const MachineClock& clock) {
  ShardServer::Options options;
  options.engine.memory.budget_bytes = 4 * kSegmentBytes;
  options.engine.memory.region_bytes = 64 << 10;
  options.engine.memory.try_huge_pages = false;
  options.engine.log.own_thread = false;
  options.engine.applier.own_thread = false;
  options.engine.applier.queue_max = 2048;
  options.engine.applier.flush_segments = 2;
  options.engine.unfinished_max = 1024;
  options.engine.unfinished_bytes_max = 1 << 20;
  options.replica.keep_bytes = 64 << 10;
  options.replica.hold_bytes = 128 << 10;
  options.replica.confirms_max = 64;
  options.replica.replica.lease.length_ns = kLeaseNs;
  options.replica.replica.heartbeat_ns = kHeartbeatNs;
  options.replica.replica.suspect_after_ns = 3 * kHeartbeatNs;
  options.replica_host = &host;
  options.clock = &clock;
  return options;
}

std::string make_directory() {
  std::string path = (std::filesystem::temp_directory_path() / "skua_fuzz_node_XXXXXX").string();
  SKUA_CHECK(mkdtemp(path.data()) != nullptr, "a temporary directory cannot be made");
  return path;
}

}  // namespace

void fail(const std::string& what) {
  check_failed(__FILE__, __LINE__, "a promise is broken", what.c_str());
}

// --- Who is who

std::string NodeWorld::uuid(uint8_t number) {
  return absl::StrCat("aaaaaaaa-0000-400", number, "-8000-000000000000");
}

const rpc::EndpointIdentity& NodeWorld::identity(uint8_t number) {
  static const auto identities = [] {
    std::array<rpc::EndpointIdentity, kNumbers> made;
    for (const uint8_t one : {kClient, kWorker, kStranger, kPeer}) {
      made[one] = worker_identity(uuid(one), 1, kCluster, 0).value();
    }
    return made;
  }();
  return identities[number];
}

NodeId NodeWorld::node_id(uint8_t number) {
  return node_id_of(identity(number).uuid);
}

NodeWorld::NodeWorld() : directory_(make_directory()) {
  for (const uint8_t number : {kClient, kWorker, kStranger, kPeer}) {
    transports_[number] = network_.attach(number, identity(number), {.payload_max_bytes = 1024, .rx_ring = 512});
  }
  client_ = std::make_unique<rpc::Endpoint>(transport(kClient), network_.clock(), endpoint_options(1));
  endpoint_ = std::make_unique<rpc::Endpoint>(transport(kWorker), network_.clock(), endpoint_options(2));
  peer_ = std::make_unique<rpc::Endpoint>(transport(kPeer), network_.clock(), endpoint_options(3));
  // The stranger knows the worker, and the worker the stranger: packets have a sender.
  SKUA_CHECK(transport(kStranger).resolve(transport(kWorker).local_descriptor()).ok(), "the same network");
  SKUA_CHECK(transport(kWorker).resolve(transport(kStranger).local_descriptor()).ok(), "the same network");
  start_server();
  start_peer();
  start_shards();
  connect_client();
  rest();
}

NodeWorld::~NodeWorld() {
  answers.clear();
  release_held();
  network_.heal();
  replication_->drain();
  bool drained = false;
  server_->drain([&drained] { drained = true; });
  for (int i = 0; i < 1000 && !drained; ++i) {
    stir(kWorker);
    pass(10 * kMillisecond);
  }
  if (!drained) fail("the worker does not drain");
  SKUA_CHECK(server_->engine().stop(), "the log never fails");
  readers_.stop();
  replication_->stop();
  for (int i = 0; i < 100; ++i) {
    stir(kWorker);
    turn();
  }
  client_.reset();
  peer_.reset();
  endpoint_.reset();
  server_.reset();
  replication_.reset();
  snapshots_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void NodeWorld::start_server() {
  SnapshotSource::Options source;
  source.directory = directory_ + "/snapshots";
  source.open_max = 2;
  snapshots_ =
      SnapshotSource::create(source,
                             [this](ShardId, const std::string& path) -> absl::StatusOr<SnapshotSource::Exported> {
                               ++exports_;
                               std::filesystem::create_directory(path);
                               std::ofstream(path + "/data") << std::string(100, 'x');
                               return SnapshotSource::Exported{{1, kEpoch}, {"data"}};
                             })
          .value();
  replication_ = std::make_unique<WorkerReplication>(ReplicaId{node_id(kWorker), kStorage}, events());
  auto device = std::make_unique<sim::SimDevice>(7, uint64_t{1} << 30);
  const auto recovery = LogRecovery::scan(*device, log_options().identity, [](const LogProgress&) {}).value();
  auto log = Log::open(*device, log_options(), *recovery).value();
  server_ = ShardServer::create(*endpoint_, readers_, server_options(*replication_, clock_),
                                {std::move(device), std::move(log)})
                .value();
  PeerLinksOptions links;
  links.cluster_id = kCluster;
  links.node_uuid = uuid(kWorker);
  links.requests_max = 16;
  links.bytes_max = 256 << 10;
  CopyResources copying;
  copying.source = snapshots_.get();
  copying.disk = copying.builder = &disk_;
  copying.slots = &slots_;
  copying.copies.directory = directory_;
  replication_->start(*endpoint_, *this, *server_, links, readers_, copying);
  server_->engine().bind_to_this_thread();
  server_->set_map_revision(kMapRevision);
}

ReplicationEvents NodeWorld::events() {
  ReplicationEvents events;
  events.persist_view = [this](ShardId shard, const View& view) {
    if (view.epoch > views_[shard].epoch) fail("a replica adopts a view that the control plane has not made");
    to_persist_.emplace_back(shard, view.epoch);
  };
  events.allow_unsynced = [this](ShardId shard) { to_allow_.push_back(shard); };
  events.put_in_doubt = [](ShardId) {};
  events.restored = [](ShardId) {};
  events.report = [](ShardId, const ReplicaReport&) {};
  events.tick = [] {};
  events.fetch_map = [] {};
  events.install_copy = [](ShardId, const std::string&) { fail("a copy is installed, and none can be made here"); };
  events.build_copy = [](ShardId, const std::string&, const std::string&) {
    return absl::UnimplementedError("no copies here");
  };
  events.log = [](LogSeverity, const std::string&) {};
  events.failed = [](ShardId, const absl::Status&) {};
  return events;
}

// --- The control plane

View NodeWorld::view_of(ShardId shard, uint64_t epoch, bool peer_leads) {
  View view;
  view.epoch = view.change = epoch;
  const ReplicaId worker{node_id(kWorker), kStorage};
  const ReplicaId peer{node_id(kPeer), kStorage};
  view.primary = (peer_leads ? peer : worker).node;
  view.members = {worker};
  if (shard == kAlone) {
    view.primary = worker.node;
    view.learners = {{peer, 0}};
  } else {
    view.members.push_back(peer);  // its number is higher
  }
  return view;
}

void NodeWorld::start_shards() {
  tell_peers(true, 1);
  for (const ShardId shard : kShards) {
    databases_[shard] = std::make_unique<MemoryDb>(shard);
    views_[shard] = view_of(shard, kEpoch - 1, shard == kBacked);
    return_to(shard);
  }
}

void NodeWorld::tell_peers(bool with_peer, uint64_t incarnation, uint64_t storage) {
  std::vector<PeerInfo> peers;
  if (with_peer) peers.push_back({uuid(kPeer), kPeerGrpc, incarnation, storage});
  replication_->set_peers(peers);
  stir(kWorker);
}

void NodeWorld::shut_out_peer(bool is_out) {
  replication_->shut_out(is_out ? std::set<NodeId>{node_id(kPeer)} : std::set<NodeId>{});
  stir(kWorker);
}

bool NodeWorld::is_replicated(ShardId shard) {
  return shard == kAlone || shard == kLed || shard == kBacked;
}

void NodeWorld::change_view(ShardId shard, bool peer_leads) {
  if (places_[shard] != Place::kHere || !is_replicated(shard)) return;
  views_[shard] = view_of(shard, views_[shard].epoch + 1, peer_leads);
  server_->shards().set_view(shard, views_[shard]);
  stir(kWorker);
}

void NodeWorld::place_peer(ShardId shard, std::optional<uint32_t> worker) {
  ReplicaPlaces places = {{node_id(kWorker), {0, kStorage}}};
  if (worker) places[node_id(kPeer)] = {*worker, kStorage};
  replication_->set_places(shard, places);
}

void NodeWorld::leave(ShardId shard) {
  if (places_[shard] != Place::kHere) return;
  places_[shard] = Place::kLeaving;
  stir(kWorker);
  replication_->forget(shard);
  server_->shards().remove(shard, [this, shard] { places_[shard] = Place::kGone; });
}

/// In the next epoch; a primary that was restarted cannot go on in the last one.
void NodeWorld::return_to(ShardId shard) {
  if (places_[shard] != Place::kGone) return;
  places_[shard] = Place::kHere;
  stir(kWorker);
  const View before = views_[shard];
  views_[shard] = view_of(shard, before.epoch + 1, before.primary == node_id(kPeer));
  server_->shards().expect(shard, views_[shard].epoch);
  if (shard == kOpening) return;
  if (shard == kFailed) return server_->shards().set_failed(shard, "its data cannot be opened");
  MemoryDb& database = *databases_[shard];
  if (!is_replicated(shard)) {
    SKUA_CHECK(begin_life(database).ok(), "memory never fails");
    return server_->shards().serve(shard, database);
  }
  server_->shards().serve_replica(shard, database, {node_id(kWorker), kStorage},
                                  {before.epoch >= kEpoch ? before : View{}, 0, false});
  place_peer(shard, 0);
  server_->shards().set_view(shard, views_[shard]);
}

void NodeWorld::describe(const std::string&, const std::string&, DescribeFn done) {
  stir(kWorker);
  const rpc::Descriptor descriptor = peer_->local_descriptor();
  done(control::NodeDescription{uuid(kPeer), 1, kCluster, {{0, {{descriptor.transport, descriptor.encode()}}}}});
}

void NodeWorld::open_session(const control::OpenSessionRequest& request, OpenSessionFn done) {
  stir(kWorker);
  stir(kPeer);
  if (offer_answer && !*offer_answer) return done(absl::UnavailableError("the fuzzer says so"));
  if (offer_answer) return done(control::OpenSessionAnswer{uuid(kPeer), 1, **offer_answer});
  if (const auto offer = rpc::SessionOffer::decode(as_byte_span(request.offer)); offer.ok()) {
    peer_wires_.push_back({offer->session_index, offer->session_generation});
    link_nonce_ = offer->nonce;
  }
  done(control::OpenSessionAnswer{uuid(kPeer), 1, peer_->accept_offer(as_byte_span(request.offer))});
}

// --- Sessions

rpc::SessionId NodeWorld::connect(rpc::Endpoint& from, WireSession& wire) {
  auto offer = from.begin_connect(endpoint_->local_descriptor());
  if (!offer.ok()) fail("an endpoint opens no session any more");
  const std::string bytes = endpoint_->accept_offer(as_byte_span(offer->bytes));
  const auto answer = rpc::SessionAnswer::decode(as_byte_span(bytes));
  if (!answer.ok()) fail("the worker's answer to an offer is none");
  stir(kWorker);
  stir(kClient);
  stir(kPeer);
  wire = {answer->session_index, answer->session_generation};
  if (!from.finish_connect(offer->session, as_byte_span(bytes)).ok()) from.close(offer->session);
  return offer->session;
}

void NodeWorld::connect_client() {
  client_session_ = connect(*client_, client_wire_);
  SKUA_CHECK(client_->is_connected(client_session_), "the first session is taken");
}

void NodeWorld::end_of_input() {
  answers.clear();
  holds = false;
  offer_answer.reset();
  vouching = Vouching::kTruth;
  release_held();
  stir(kWorker);
  network_.heal();
  close_peer_session();
  rest();
  for (const auto& [shard, place] : places_) return_to(shard);
  tell_peers(true, 1);
  rest();
  if (endpoint_->balance().handlers > 0) {
    // Writes may wait for the peer, and reads: as long as the control plane leaves it where it is.
    for (const ShardId shard : {kLed, kBacked}) {
      change_view(shard, true);
      change_view(shard, shard == kBacked);
    }
    rest();
  }
  peer_wires_.clear();
  peer_nonces_.clear();
  stranger_watch_.clear();
}

// --- Time

void NodeWorld::discard_received(uint8_t number) {
  std::array<rpc::RxPacket, rpc::kBurstMax> packets;
  while (const size_t count = transport(number).rx_burst(packets)) {
    for (size_t i = 0; i < count; ++i) {
      rpc::PacketHeader header;
      if (decode_header(packets[i].header, header)) stranger_watch_.on_received(header);
      transport(number).release({&packets[i].buffer, 1});
    }
  }
}

void NodeWorld::stir(uint8_t number) {
  stirred_[number] = true;
}

void NodeWorld::take_turn(uint8_t number, Step& step) {
  rpc::Endpoint& endpoint = number == kWorker ? *endpoint_ : number == kPeer ? *peer_ : *client_;
  const TimeNs now = network_.now_ns();
  const bool due = stirred_[number] || transports_[number]->has_received() || endpoint.next_timer_ns() <= now ||
                   (number == kWorker && due_ns_ <= now);
  if (!due) return;
  stirred_[number] = false;
  const size_t work = number == kWorker ? run_worker() : endpoint.poll();
  if (work > 0) stir(number);
  ++step.turns;
  step.work += work;
}

size_t NodeWorld::run_worker() {
  size_t work = endpoint_->poll();
  DurationNs wait = server_->tick();
  if (const DurationNs links = replication_->tick(); links < kNothingDueNs) wait = std::min(wait, links);
  due_ns_ = wait == kTimeNever ? kTimeNever : network_.now_ns() + wait;
  while (readers_.step()) ++work;
  WorkerEngine& engine = server_->engine();
  const auto step = [&engine] {
    const bool logged = engine.step_log();
    return engine.step_applier() || logged;
  };
  while (step()) ++work;
  for (; !to_persist_.empty(); ++work) {
    const auto [shard, epoch] = to_persist_.front();
    to_persist_.pop_front();
    server_->shards().view_persisted(shard, epoch);
  }
  for (; !to_allow_.empty(); ++work) {
    const ShardId shard = to_allow_.front();
    to_allow_.pop_front();
    server_->shards().unsynced_allowed(shard);
  }
  return work;
}

NodeWorld::Step NodeWorld::step() {
  Step step;
  for (const uint8_t number : {kClient, kPeer, kWorker}) take_turn(number, step);
  if (transports_[kStranger]->has_received()) discard_received(kStranger);
  return step;
}

void NodeWorld::turn() {
  static_cast<void>(step());
  if (const TimeNs next = network_.next_event_ns(); next != kTimeNever) network_.advance_to(next);
}

void NodeWorld::rest() {
  // An endpoint may keep asking for turns in which it can do nothing.
  for (int turns = 0, idle = 0; idle < 2; ++turns) {
    if (turns == kTurnsMax) fail("the world does not come to rest");
    const Step done = step();
    const TimeNs next = network_.next_event_ns();
    if (done.turns == 0 && next == kTimeNever) return;
    idle = done.work == 0 && next == kTimeNever ? idle + 1 : 0;
    if (next != kTimeNever) network_.advance_to(next);
  }
}

void NodeWorld::pass(DurationNs time) {
  const TimeNs end = network_.now_ns() + time;
  const DurationNs look = std::max(kLookNs, time / kLooks);
  rest();
  while (network_.now_ns() < end) {
    const TimeNs next =
        std::min({client_->next_timer_ns(), peer_->next_timer_ns(), endpoint_->next_timer_ns(), due_ns_});
    network_.advance_to(std::min(end, std::max(next, network_.now_ns() + look)));
    if (network_.now_ns() >= end) stir(kWorker);
    rest();
  }
}

void NodeWorld::pass_unix_ms(uint64_t time) {
  clock_.pass_unix_ms(time);
  stir(kWorker);
  pass(2 * kMillisecond);  // the worker has looked at the clock
}

bool NodeWorld::is_full() const {
  return std::ranges::any_of(databases_, [](const auto& one) { return one.second->row_count() > kRowsMax; });
}

}  // namespace skua::kv::fuzz
