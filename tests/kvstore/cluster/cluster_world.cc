#include "tests/kvstore/cluster/cluster_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/core/uuid.h"
#include "control/core/view_rules.h"
#include "kvstore/peers/peer_identity.h"
#include "rpc/base/check.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kLivenessMax = 120 * kSecond;
constexpr DurationNs kReadAllMax = 10 * kSecond;
constexpr const char* kTable = "t";
constexpr DurationNs kMapLateMax = 3 * kSecond;
/// Of a call of the bootstrap service.
constexpr DurationNs kBootstrapTimeout = kSecond;

/// Of every shard that anybody holds, as nodes see it.
std::vector<View> views_of(const control::ClusterState& state, size_t shards) {
  const control::ShardMap map = control::build_shard_map(state);
  std::vector<View> views(shards);
  for (const control::MapNode& node : map.nodes) {
    for (const WantedShard& shard : wanted_shards(map, node.uuid)) {
      if (shard.view) views[shard.id.shard] = *shard.view;
    }
  }
  return views;
}

}  // namespace

ClusterWorld::ClusterWorld(const ClusterSimOptions& options, WorldMutant mutant, bool verbose)
    : options_(options),
      kernel_(options.seed, verbose),
      oracle_(kernel_, options_.shards, options_.keys),
      network_(kernel_, options_, options_.nodes + options_.controls + options_.clients),
      wire_(kernel_, options_, options_.packets),
      store_(kernel_, options_),
      views_(options_.shards),
      histories_(options_.shards, options_.keys) {
  kernel_.mutant = mutant;
}

/// A worker that ends takes its last turns, in which it may ask other nodes: all of them are still there.
ClusterWorld::~ClusterWorld() {
  for (const auto& node : nodes_) node->stop(ClusterNode::End::kKill);
}

// --- A run

/// Everybody has registered, and the table is there.
control::ClusterState ClusterWorld::first_state() const {
  control::ClusterState empty;
  empty.cluster_id = cluster_uuid();
  empty.cluster_name = "simulated";
  empty.map_revision = 1;
  control::ClusterCore core(options_.core, empty, kSecond);
  const auto step = [&core](const control::Event& event) {
    const control::Decision decision = core.step(event, kSecond);
    SKUA_CHECK(decision.status.ok(), std::string(decision.status.message()).c_str());
    core.committed(decision.changes, kSecond);
  };
  for (const auto& node : nodes_) step(control::RegisterNode{"", node->info(), 0});
  step(control::CreateTable{kTable, static_cast<uint32_t>(options_.shards), false, options_.replicas,
                            options_.min_insync, options_.read_anywhere});
  return core.state();
}

void ClusterWorld::start() {
  for (size_t number = 1; number <= options_.nodes; ++number) {
    nodes_.push_back(std::make_unique<ClusterNode>(kernel_, oracle_, wire_, options_, *this, number));
  }
  store_.is_viable = [this](const control::Changes& changes) { return is_viable(changes); };
  store_.decided = [this](const control::Changes& changes, const control::ClusterState& before) {
    decided(changes, before);
  };
  store_.start(first_state());
  views_ = views_of(store_.state(), options_.shards);
  for (size_t shard = 0; shard < options_.shards; ++shard) oracle_.view_decided(shard, views_[shard]);
  for (size_t i = 0; i < options_.controls; ++i) {
    controls_.push_back(std::make_unique<ControlProcess>(kernel_, options_, store_, *this, i));
    controls_[i]->start();
  }
  for (auto& node : nodes_) start_node(*node);
  for (size_t i = 0; i < options_.clients; ++i) {
    client_processes_.push_back(
        std::make_unique<ClientProcess>(kernel_, oracle_, wire_, options_, *this, i, client_address(i)));
    clients_.push_back(std::make_unique<SimClient>(kernel_, options_, *this, histories_, i));
    clients_[i]->start();
  }
  start_faults();
}

bool ClusterWorld::run_until(TimeNs end) {
  while (!kernel_.broken && kernel_.queue.run_next(end)) {
  }
  return !kernel_.broken;
}

std::optional<std::string> ClusterWorld::run() {
  run_phases();
  if (kernel_.broken && kernel_.verbose) print_replicas();
  return kernel_.broken;
}

void ClusterWorld::print_replicas() const {
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    std::string who;
    for (const ReplicaId& id : view(shard).members) absl::StrAppend(&who, " ", id.node >> 32);
    for (const Learner& learner : view(shard).learners) {
      absl::StrAppend(&who, " (", learner.id.node >> 32, " join ", learner.join, ")");
    }
    std::fprintf(stderr, "shard %zu: epoch %zu.%zu primary %zu:%s\n", shard, view(shard).epoch, view(shard).change,
                 view(shard).primary >> 32, who.c_str());
    for (const auto& node : nodes_) std::fprintf(stderr, "  %s\n", node->describe(shard).c_str());
  }
  for (const auto& control : controls_) std::fprintf(stderr, "%s\n", control->describe().c_str());
}

void ClusterWorld::run_phases() {
  start();
  if (!run_until(options_.faulty_ns)) return;
  heal();
  if (!settle()) return;
  clients_[0]->finish(true);
  const TimeNs read_end = kernel_.now() + kReadAllMax;
  while (!clients_[0]->is_idle()) {
    if (!run_until(kernel_.now() + 20 * kMillisecond)) return;
    if (kernel_.now() >= read_end) return kernel_.break_promise("liveness: the last reads have no answer");
  }
  if (!settle()) return;  // views may have changed meanwhile, and left entries that wait in batches
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    check_equal(shard);
    if (oracle_.is_forked(shard)) histories_.ops[shard].clear();
  }
  if (std::string trouble = histories_.trouble(); !trouble.empty()) kernel_.break_promise(std::move(trouble));
}

/// Runs until everything is as it must be in the end. False: the run is over.
bool ClusterWorld::settle() {
  const TimeNs end = kernel_.now() + kLivenessMax;
  for (std::string left = unfinished(); !left.empty(); left = unfinished()) {
    if (!run_until(kernel_.now() + 100 * kMillisecond)) return false;
    if (kernel_.now() < end) continue;
    kernel_.break_promise("liveness: " + left);
    return false;
  }
  return true;
}

void ClusterWorld::heal() {
  kernel_.note("heal");
  healed_ = true;
  faults_.stop();
  network_.heal();
  wire_.heal();
  store_.heal();
  for (auto& control : controls_) {
    control->pause_until(0);
    if (!control->is_up()) control->start();
  }
  for (auto& node : nodes_) {
    node->heal();
    start_node(*node);
  }
  for (auto& client : clients_) client->finish(false);
}

/// What is not yet as it must be in the end; empty: nothing.
std::string ClusterWorld::unfinished() {
  for (const auto& [uuid, info] : store_.state().nodes) {
    if (info.draining) ask_leader(control::UndrainNode{uuid});
  }
  for (const auto& client : clients_) {
    if (client->is_idle()) continue;
    return absl::StrFormat("client %d waits for the answer to %d on shard %d", client->request().id.client,
                           client->request().id.seq, client->request().shard);
  }
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    if (std::string left = unfinished_shard(shard); !left.empty()) return left;
  }
  return "";
}

std::string ClusterWorld::unfinished_shard(size_t shard) {
  const View& at = view(shard);
  if (at.members.size() != options_.replicas || !at.learners.empty()) {
    return absl::StrFormat("shard %d has %d members, %d learners in epoch %d", shard, at.members.size(),
                           at.learners.size(), at.epoch);
  }
  const ClusterNode* const primary = node_of(at.primary);
  const ShardReplica* const leader = primary == nullptr ? nullptr : primary->replica(shard);
  if (leader == nullptr || !leader->takes_writes())
    return absl::StrFormat("the primary of shard %d is not open", shard);
  for (const ReplicaId& id : at.members) {
    ClusterNode* const member = node_of(id);
    const ShardReplica* const replica = member == nullptr ? nullptr : member->replica(shard);
    if (replica == nullptr) return absl::StrFormat("shard %d: a member is down", shard);
    const uint64_t last = leader->replica().last_index();
    const Replica& state = replica->replica();
    if (state.view().epoch == at.epoch && state.last_index() == last && state.commit_index() == last &&
        member->database(shard).index() == last) {
      continue;
    }
    member->hurry_applier();
    return absl::StrFormat("shard %d node %d: epoch %d, commit %d, last %d, applied %d, of %d", shard, id.node >> 32,
                           state.view().epoch, state.commit_index(), state.last_index(),
                           member->database(shard).index(), last);
  }
  return "";
}

void ClusterWorld::check_equal(size_t shard) {
  const Database& reference = node_of(view(shard).primary)->database(shard);
  for (const ReplicaId& id : view(shard).members) {
    const Database& database = node_of(id.node)->database(shard);
    oracle_.found(shard, database.index(), ClusterNode::contents_of(database), "a database");
    if (database.rows() != reference.rows()) {
      kernel_.break_promise(absl::StrFormat("shard %d: node %d at %d differs from the primary at %d", shard,
                                            id.node >> 32, database.index(), reference.index()));
    }
  }
}

SimTally ClusterWorld::tally() const {
  SimTally tally;
  tally.events = kernel_.queue.taken();
  tally.probes = kernel_.probes;
  tally.virtual_s = static_cast<double>(kernel_.now()) / 1e9;
  tally.views = views_decided_;
  for (const auto& client : clients_) tally.operations += client->answered();
  for (size_t shard = 0; shard < options_.shards; ++shard) tally.writes += oracle_.committed_index(shard);
  return tally;
}

// --- Between the parts

/// nullptr: its disk was wiped, and it is another one now.
ClusterNode* ClusterWorld::node_of(NodeId id) const {
  ClusterNode* const node = nodes_[(id >> 32) - 1].get();
  return node->id() == id ? node : nullptr;
}

/// nullptr: it has lost what this replica had, or may have.
ClusterNode* ClusterWorld::node_of(const ReplicaId& id) const {
  ClusterNode* const node = node_of(id.node);
  return node != nullptr && node->replica_id() == id ? node : nullptr;
}

void ClusterWorld::to_peer(ClusterNode& from, std::shared_ptr<const NodeMessage> message) {
  ClusterNode* const to = node_of(message->to);
  if (to == nullptr) return;
  // Towards the process that runs now; nobody else gets it.
  const auto deliver = [message, to, life = to->life()] {
    if (to->life() == life) to->run(0, [to, message] { to->on_peer(*message); });
  };
  network_.send(node_address(from.number()), node_address(to->number()), deliver);
}

template <typename Answer>
void ClusterWorld::ask_node(ClusterNode& from, const std::string& address,
                            std::function<absl::StatusOr<Answer>(ClusterNode&)> question,
                            std::function<void(absl::StatusOr<Answer>)> done) {
  const auto once = std::make_shared<std::function<void(absl::StatusOr<Answer>)>>(std::move(done));
  const auto answer = [once, &from](absl::StatusOr<Answer> what) {
    if (*once == nullptr) return;
    std::exchange(*once, nullptr)(std::move(what));
    if (from.is_up()) from.bootstrapped();
  };
  const auto found =
      std::ranges::find_if(nodes_, [&](const auto& node) { return node->info().grpc_address == address; });
  SKUA_CHECK(found != nodes_.end(), "the map names nodes that there are");
  ClusterNode& to = **found;
  network_.send(node_address(from.number()), node_address(to.number()), [this, &from, &to, question, answer] {
    to.run(0, [this, &from, &to, question, answer] {
      network_.send(node_address(to.number()), node_address(from.number()),
                    [answer, what = question(to)] { answer(what); });
    });
  });
  kernel_.queue.at(kernel_.now() + kBootstrapTimeout,
                   [answer] { answer(absl::UnavailableError("the node does not answer")); });
}

void ClusterWorld::describe(ClusterNode& from, const std::string& address, PeerBootstrap::DescribeFn done) {
  ask_node<control::NodeDescription>(
      from, address, [](ClusterNode& to) { return to.description(); }, std::move(done));
}

/// The checks are those of the bootstrap service (control/server/bootstrap_server.cc).
void ClusterWorld::open_session(ClusterNode& from, const control::OpenSessionRequest& request,
                                PeerBootstrap::OpenSessionFn done) {
  ask_node<control::OpenSessionAnswer>(
      from, request.grpc_address,
      [request](ClusterNode& to) -> absl::StatusOr<control::OpenSessionAnswer> {
        const bool other = !request.node_uuid.empty() && request.node_uuid != to.info().uuid;
        const bool other_life = request.incarnation != 0 && request.incarnation != to.info().incarnation;
        if (other || other_life) return absl::FailedPreconditionError("another node, or another life of the node");
        return control::OpenSessionAnswer{to.info().uuid, to.info().incarnation, to.accept_offer(request.offer)};
      },
      std::move(done));
}

std::optional<rpc::Descriptor> ClusterWorld::descriptor_of(uint64_t number) const {
  const ClusterNode& at = node(number);
  if (!at.is_up()) return std::nullopt;
  const auto description = at.description();
  auto descriptor = rpc::Descriptor::decode(as_byte_span(description.workers.front().transports.front().bytes));
  SKUA_CHECK(descriptor.ok(), "an endpoint's own descriptor can be read");
  return *descriptor;
}

void ClusterWorld::offer_session(size_t client, uint64_t number, const std::string& offer,
                                 std::function<void(const std::string& answer)> done) {
  ClusterNode& to = node(number);
  network_.send(client_address(client), node_address(number), [this, client, number, &to, offer, done] {
    to.run(0, [this, client, number, &to, offer, done] {
      network_.send(node_address(number), client_address(client),
                    [done, answer = to.accept_offer(offer)] { done(answer); });
    });
  });
}

void ClusterWorld::to_control(ClusterNode& from, size_t control, const ControlRequest& request) {
  network_.send(node_address(from.number()), control_address(control), [this, control, request] {
    if (controls_[control]->is_up()) controls_[control]->on_request(request);
  });
}

void ClusterWorld::answer(size_t control, const ControlRequest& request, const ControlReply& reply) {
  if (request.node == 0) return;
  ClusterNode& to = node(request.node);
  network_.send(control_address(control), node_address(request.node), [&to, life = request.life, reply] {
    if (to.life() == life) to.run(0, [&to, reply] { to.on_control(reply); });
  });
}

void ClusterWorld::publish(size_t control, const MapPtr& map) {
  for (const auto& each : nodes_) {
    ClusterNode& to = *each;
    network_.send(control_address(control), node_address(to.number()), [&to, life = to.life(), map] {
      if (to.life() == life) to.run(0, [&to, map] { to.on_map(map); });
    });
  }
  for (size_t client = 0; client < client_processes_.size(); ++client) {
    // Some clients take their time: they go on with the map that they have.
    const DurationNs late = kernel_.rng.chance(0.5) ? 0 : kernel_.between(0, kMapLateMax);
    network_.send(control_address(control), client_address(client), [this, client, map, late] {
      kernel_.queue.at(kernel_.now() + late, [this, client, map] { client_processes_[client]->on_map(map); });
    });
  }
}

void ClusterWorld::to_node(size_t client, uint64_t number, const ClientRequest& request) {
  client_processes_[client]->send(number, request);
}

void ClusterWorld::process_ended(ClusterNode& node) {
  kernel_.queue.at(kernel_.now(), [this, &node, life = node.life()] {
    if (node.life() == life && node.is_up()) crash(node, ClusterNode::End::kPowerCut, options_.down_ns);
  });
}

// --- What must be true at once

void ClusterWorld::decided(const control::Changes& changes, const control::ClusterState& /*before*/) {
  if (changes.put_shards.empty()) return;
  const std::vector<View> next = views_of(store_.state(), options_.shards);
  for (const control::ShardRecord& record : changes.put_shards) {
    const size_t shard = record.shard;
    ++views_decided_;
    if (next[shard].fork != views_[shard].fork) forked(shard);
    if (next[shard].primary != views_[shard].primary) kernel_.hit(Probe::kFailover);
    if (next[shard].members.size() < views_[shard].members.size()) kernel_.hit(Probe::kMemberRemoved);
    if (next[shard].members.size() > views_[shard].members.size()) kernel_.hit(Probe::kJoined);
    if (next[shard].learners.size() > views_[shard].learners.size()) kernel_.hit(Probe::kLearnerAdded);
    oracle_.view_decided(shard, next[shard]);
    const uint64_t committed = oracle_.committed_index(shard);
    uint64_t who = 0;  // members and learners, a decimal digit each
    for (const ReplicaId& id : next[shard].members) who = who * 10 + (id.node >> 32);
    for (const Learner& learner : next[shard].learners) who = who * 10 + (learner.id.node >> 32);
    kernel_.note("decided", shard, next[shard].epoch, next[shard].primary >> 32, who);
    views_[shard] = next[shard];
    if (committed > 0) check_members_have(shard, views_[shard], committed);
  }
}

/// By an operator, or because all members lost power before they had synced.
void ClusterWorld::forked(size_t shard) {
  kernel_.hit(Probe::kForked);
  if (options_.fork_every_ns != 0) return;
  kernel_.hit(Probe::kLongestLog);
  if (options_.engine.durability != Durability::kSync) return;
  kernel_.break_promise(absl::StrFormat("shard %d: writes were given up that were synced", shard));
}

void ClusterWorld::check_members_have(size_t shard, const View& view, uint64_t index) {
  if (oracle_.is_forked(shard)) return;
  for (const ReplicaId& id : view.members) {
    const ClusterNode* const member = node_of(id);
    // Those that are not open now are looked at when they are.
    if (member == nullptr || !member->has_data(shard)) continue;
    const EntryId entry{index, oracle_.epoch_of(shard, index)};
    if (member->is_doubtful(shard)) continue;
    if (member->holds(shard, entry, oracle_.level_of(shard, index, options_.write_level()))) continue;
    kernel_.break_promise(
        absl::StrFormat("I4: shard %d: entry %d of epoch %d is committed and not at node %d, a member in epoch %d",
                        shard, index, entry.epoch, id.node >> 32, view.epoch));
  }
}

void ClusterWorld::shard_opened(ClusterNode& node, size_t shard) {
  const Database& database = node.database(shard);
  oracle_.found(shard, database.index(), ClusterNode::contents_of(database), "a database that is opened");
  const uint64_t committed = oracle_.committed_index(shard);
  if (oracle_.is_forked(shard) || committed == 0 || !view(shard).is_member(node.replica_id())) return;
  if (node.is_doubtful(shard)) return;
  const Durability level = oracle_.level_of(shard, committed, options_.write_level());
  if (node.holds(shard, {committed, oracle_.epoch_of(shard, committed)}, level)) return;
  kernel_.break_promise(absl::StrFormat("I4: shard %d: entry %d is committed and not at node %d when it opens", shard,
                                        committed, node.number()));
}

void ClusterWorld::entry_committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) {
  const bool by_primary = replica.role() == ReplicaRole::kPrimary;
  if (!oracle_.committed(shard, index, entry, by_primary) || kernel_.broken) return;
  kernel_.note("committed", shard, index, entry.epoch, replica.view().epoch);
  check_members_have(shard, replica.view(), index);
  if (view(shard).epoch > replica.view().epoch) check_members_have(shard, view(shard), index);
  for (const auto& other : nodes_) {
    const ShardReplica* const known = other->replica(shard);
    if (known == nullptr || known->replica().view().epoch >= replica.view().epoch) continue;
    if (!known->may_read(other->now())) continue;
    // A backup that has it in its log shows nothing older of that key.
    if (known->reads_as_backup() && other->has_received(shard, {index, entry.epoch})) continue;
    kernel_.break_promise(
        absl::StrFormat("I11: shard %d: entry %d is committed in epoch %d while node %d may serve reads in epoch %d",
                        shard, index, replica.view().epoch, other->number(), known->replica().view().epoch));
  }
}

bool ClusterWorld::is_intact(const ReplicaId& id) const {
  const ClusterNode* const node = node_of(id);
  return node != nullptr && !rotten_.contains(node->number());
}

bool ClusterWorld::is_viable(const control::Changes& changes) const {
  return std::ranges::all_of(changes.put_shards, [this](const control::ShardRecord& record) {
    const auto members = control::members_of(record);
    return std::ranges::any_of(members, [this](const control::Replica& member) {
      return is_intact({node_id_of(member.node_uuid), member.storage_incarnation});
    });
  });
}

}  // namespace skua::kv::sim
