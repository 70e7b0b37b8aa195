#include "tests/kvstore/replication/replication_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kLivenessMax = 60 * kSecond;
constexpr DurationNs kReadAllMax = 10 * kSecond;

}  // namespace

ReplicationWorld::ReplicationWorld(const ReplicationSimOptions& options, WorldMutant mutant, bool verbose)
    : options_(options),
      kernel_(options.seed, verbose),
      oracle_(kernel_, options_.shards, options_.keys),
      network_(kernel_, options_, options_.nodes + 2 + options_.clients),
      store_(kernel_, options_),
      histories_(options_.shards, options_.keys) {
  kernel_.mutant = mutant;
}

ReplicationWorld::~ReplicationWorld() = default;

// --- A run

void ReplicationWorld::start() {
  store_.is_viable = [this](size_t shard, const View& view) { return is_viable(shard, view); };
  store_.decided = [this](size_t shard, const View& view) { view_decided(shard, view); };
  for (NodeId id = 1; id <= options_.nodes; ++id) {
    nodes_.push_back(std::make_unique<SimNode>(kernel_, oracle_, options_, *this, id));
  }
  std::vector<View> views;
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    View view;
    view.epoch = view.change = 1;
    view.min_insync = options_.min_insync;
    view.read_anywhere = options_.read_anywhere;
    const size_t members = kernel_.rng.between(1, options_.replicas);
    const size_t first = kernel_.rng.below(options_.nodes - members + 1) + 1;
    for (size_t i = 0; i < members; ++i) view.members.push_back({first + i, 1});
    view.primary = first + kernel_.rng.below(members);
    views.push_back(view);
    view_decided(shard, view);
  }
  store_.start(views);
  for (size_t i = 0; i < 2; ++i) {
    managers_.push_back(std::make_unique<ViewManagerModel>(kernel_, options_, store_));
    managers_[i]->tell = [this, i](size_t shard, NodeId to, const View& view) {
      network_.send(manager_address(i), node_address(to), [this, shard, to, view] {
        node(to).run(kernel_.now(), [this, shard, to, view] { node(to).on_view(shard, view); });
      });
    };
  }
  for (auto& node : nodes_) node->start();
  managers_[0]->start();
  if (options_.two_managers) managers_[1]->start();
  for (size_t i = 0; i < options_.clients; ++i) {
    clients_.push_back(std::make_unique<SimClient>(kernel_, options_, *this, histories_, i));
    clients_[i]->start();
  }
  start_faults();
}

bool ReplicationWorld::run_until(TimeNs end) {
  while (!kernel_.broken && kernel_.queue.run_next(end)) {
  }
  return !kernel_.broken;
}

std::optional<std::string> ReplicationWorld::run() {
  run_phases();
  if (kernel_.broken && kernel_.verbose) print_replicas();
  return kernel_.broken;
}

void ReplicationWorld::print_replicas() const {
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    for (const auto& node : nodes_) {
      const ReplicaDriver* driver = node->driver(shard);
      if (driver == nullptr) continue;
      const Replica& replica = driver->replica();
      const LogLevels levels = node->storage(shard).levels();
      std::fprintf(stderr,
                   "shard %zu node %zu/%zu: %s, epoch %zu, %s, log %zu..%zu written %zu durable %zu, commit %zu\n",
                   shard, node->id().node, node->id().incarnation, replica_role_name(replica.role()),
                   replica.view().epoch, replica.open() ? "open" : "not open", node->storage(shard).first_index(),
                   replica.last_index(), levels.written, levels.durable, replica.commit_index());
      for (NodeId peer = 1; peer <= options_.nodes; ++peer) {
        const auto acked = replica.peer_levels(peer);
        if (!acked) continue;
        std::fprintf(stderr, "    of node %zu: received %zu written %zu durable %zu\n", peer, acked->received,
                     acked->written, acked->durable);
      }
    }
  }
}

void ReplicationWorld::run_phases() {
  start();
  if (!run_until(options_.faulty_ns)) return;
  heal();
  const TimeNs end = kernel_.now() + kLivenessMax;
  for (std::string left = unfinished(); !left.empty(); left = unfinished()) {
    if (!run_until(kernel_.now() + 100 * kMillisecond)) return;
    if (kernel_.now() >= end) {
      kernel_.break_promise("liveness: " + left);
      return;
    }
  }
  clients_[0]->finish(true);
  const TimeNs read_end = kernel_.now() + kReadAllMax;
  while (!clients_[0]->is_idle()) {
    if (!run_until(kernel_.now() + 20 * kMillisecond)) return;
    if (kernel_.now() >= read_end) {
      kernel_.break_promise("liveness: the last reads have no answer");
      return;
    }
  }
  if (std::string trouble = histories_.trouble(); !trouble.empty()) kernel_.break_promise(std::move(trouble));
}

void ReplicationWorld::heal() {
  kernel_.note("heal");
  healed_ = true;
  faults_.stop();
  network_.heal();
  store_.heal();
  for (auto& manager : managers_) manager->heal();
  if (!managers_[0]->is_up()) managers_[0]->start();
  for (auto& node : nodes_) {
    node->disk().hangs = node->disk().full = false;
    node->disk().stalled_until = 0;
    node->start();
  }
  for (auto& client : clients_) client->finish(false);
}

/// What is not yet as it must be in the end; empty: nothing.
std::string ReplicationWorld::unfinished() const {
  for (const auto& client : clients_) {
    if (!client->is_idle()) {
      return absl::StrFormat("client %d waits for the answer to %d on shard %d", client->request().id.client,
                             client->request().id.seq, client->request().shard);
    }
  }
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    const View& view = store_.view(shard);
    if (view.members.size() < options_.replicas || !view.learners.empty()) {
      return absl::StrFormat("shard %d has %d members, %d learners in epoch %d", shard, view.members.size(),
                             view.learners.size(), view.epoch);
    }
    std::optional<uint64_t> hash;
    for (const ReplicaId& id : view.members) {
      ReplicaDriver* driver = nodes_[id.node - 1]->driver(shard);
      if (driver == nullptr || !(nodes_[id.node - 1]->id() == id)) return "a member is down";
      const Replica& replica = driver->replica();
      if (replica.view().epoch != view.epoch)
        return absl::StrFormat("node %d is in epoch %d", id.node, replica.view().epoch);
      if (id.node == view.primary && !replica.can_propose()) return "a primary is not open";
      if (replica.last_index() != oracle_.committed_index(shard) || replica.commit_index() != replica.last_index()) {
        return absl::StrFormat("shard %d node %d: commit %d, last %d, of %d", shard, id.node, replica.commit_index(),
                               replica.last_index(), oracle_.committed_index(shard));
      }
      driver->catch_up();
      if (hash && *hash != driver->state().hash()) return "replicas differ";
      hash = driver->state().hash();
    }
  }
  return "";
}

SimTally ReplicationWorld::tally() const {
  SimTally tally;
  tally.events = kernel_.queue.taken();
  tally.probes = kernel_.probes;
  tally.virtual_s = static_cast<double>(kernel_.now()) / 1e9;
  tally.views = views_;
  for (const auto& client : clients_) tally.operations += client->answered();
  for (size_t shard = 0; shard < options_.shards; ++shard) tally.writes += oracle_.committed_index(shard);
  return tally;
}

// --- Between the parts

void ReplicationWorld::to_peer(const PeerMessage& message) {
  // Towards the process that runs now; nobody else gets it.
  const auto deliver = [this, message, to_life = node(message.to).life()] {
    SimNode& to = node(message.to);
    if (to.life() != to_life) return;
    to.run(kernel_.now(), [&to, message] { to.on_peer(message); });
  };
  network_.send(node_address(message.from.node), node_address(message.to), deliver);
  // There are few of these, so they come again more often, and late.
  const auto* body = std::get_if<ReplicaMessage>(&message.body);
  if (healed_ || options_.duplicate == 0 || body == nullptr || !std::holds_alternative<Release>(*body)) return;
  for (int i = 0; i < 5; ++i) kernel_.queue.at(kernel_.now() + kernel_.between(0, 4 * kSecond), deliver);
}

void ReplicationWorld::to_managers(NodeId from, std::function<void(ViewManagerModel&)> what) {
  for (size_t i = 0; i < managers_.size(); ++i) {
    if (!managers_[i]->is_up()) continue;
    network_.send(node_address(from), manager_address(i), [this, i, what] {
      if (managers_[i]->is_up()) what(*managers_[i]);
    });
  }
}

void ReplicationWorld::to_client(NodeId from, const ClientReply& reply) {
  const size_t client = reply.id.client - 1;
  network_.send(node_address(from), client_address(client),
                [this, client, reply] { clients_[client]->on_reply(reply); });
}

void ReplicationWorld::to_node(size_t client, NodeId id, const ClientRequest& request) {
  network_.send(client_address(client), node_address(id), [this, id, request] {
    node(id).run(kernel_.now(), [this, id, request] { node(id).on_request(request); });
  });
}

// --- What must be true at once

void ReplicationWorld::view_decided(size_t shard, const View& view) {
  ++views_;
  oracle_.view_decided(shard, view);
  if (oracle_.committed_index(shard) > 0) check_members_have(shard, view, oracle_.committed_index(shard));
}

void ReplicationWorld::check_members_have(size_t shard, const View& view, uint64_t index) {
  const Durability level = oracle_.level_of(shard, index, options_.durability);
  for (const ReplicaId& id : view.members) {
    const SimNode& member = *nodes_[id.node - 1];
    if (!(member.id() == id)) continue;  // it has lost everything, and will not be a member for long
    const EntryId entry{index, oracle_.epoch_of(shard, index)};
    if (member.storage(shard).holds(entry, level)) continue;
    kernel_.break_promise(
        absl::StrFormat("I4: shard %d: entry %d of epoch %d is committed and not at node %d, a member in epoch %d",
                        shard, index, entry.epoch, id.node, view.epoch));
  }
}

void ReplicationWorld::entry_committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) {
  const bool by_primary = replica.role() == ReplicaRole::kPrimary;
  if (!oracle_.committed(shard, index, entry, by_primary) || kernel_.broken) return;
  kernel_.note("committed", shard, index, entry.epoch, replica.view().epoch);
  check_members_have(shard, replica.view(), index);
  if (store_.view(shard).epoch > replica.view().epoch) check_members_have(shard, store_.view(shard), index);
  for (const auto& other : nodes_) {
    const ReplicaDriver* driver = other->driver(shard);
    if (driver == nullptr || driver->replica().view().epoch >= replica.view().epoch) continue;
    if (!driver->replica().may_serve_read(other->now())) continue;
    // A backup that has it in its log shows nothing older of that key.
    const bool backup = driver->replica().role() == ReplicaRole::kBackup;
    if (backup && other->storage(shard).holds({index, entry.epoch}, Durability::kMemory)) continue;
    kernel_.break_promise(
        absl::StrFormat("I11: shard %d: entry %d is committed in epoch %d while node %d may serve reads in epoch %d",
                        shard, index, replica.view().epoch, other->id().node, driver->replica().view().epoch));
  }
}

bool ReplicationWorld::is_viable(size_t /*shard*/, const View& view) const {
  return std::any_of(view.members.begin(), view.members.end(),
                     [this](const ReplicaId& id) { return nodes_[id.node - 1]->id() == id; });
}

}  // namespace skua::kv::sim
