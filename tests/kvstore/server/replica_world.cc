#include "tests/kvstore/server/replica_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/engine/recovery.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv::sim {
namespace {

constexpr ShardId kShard{7, 0};
constexpr DurationNs kStepNs = kMillisecond;
constexpr TimeNs kFaultsUntilNs = 20 * kSecond;
constexpr TimeNs kGiveUpNs = 120 * kSecond;

}  // namespace

void ReplicaWorld::Tally::add(const Tally& other) {
  acknowledged += other.acknowledged;
  retries += other.retries;
  kills += other.kills;
  power_cuts += other.power_cuts;
  views += other.views;
  joins += other.joins;
  snapshots += other.snapshots;
  messages += other.messages;
  reads += other.reads;
  backup_reads += other.backup_reads;
  unsettled += other.unsettled;
}

// --- A node's surroundings

ReplicaWorld::Node::Node(ReplicaWorld& owner, NodeId self, uint64_t seed)
    : world(owner), id(self), machine(seed, 1, 0) {
  machine.make_database(kShard);
}

void ReplicaWorld::Node::send(ShardId /*shard*/, NodeId to, const ReplicaMessage& message) {
  world.deliver(to, {id, message, {}, {}});
}

size_t ReplicaWorld::Node::send_entries(ShardId /*shard*/, NodeId to, const Append& append,
                                        std::span<ReplicaRecord* const> entries) {
  Message message{id, append, {}, {}};
  for (ReplicaRecord* record : entries) {
    ReplicaEntry entry = WorkerEngine::entry_of_record(*record);
    message.payloads.emplace_back(as_string_view(entry.payload));
    entry.payload = as_byte_span(message.payloads.back());
    message.entries.push_back(entry);
    WorkerEngine::release_entry_pin(record);
  }
  if (world.faults_ && world.rng_.chance(world.refusals_)) {
    // A way that is full: of the message nothing goes, and some time later there is room.
    world.at(world.now_ + static_cast<DurationNs>(world.rng_.between(1, 20)) * kMillisecond, [this, to, born = life] {
      if (born == life && replica != nullptr) replica->peer_ready(to, world.now_);
    });
    return 0;
  }
  const size_t sent = message.entries.size();
  world.deliver(to, std::move(message));
  return sent;
}

void ReplicaWorld::Node::persist_view(ShardId /*shard*/, const View& view) {
  world.at(world.now_ + static_cast<DurationNs>(world.rng_.between(1, 20)) * kMillisecond, [this, view, born = life] {
    if (born != life || replica == nullptr) return;
    persisted = view;
    replica->view_persisted(view.epoch, world.now_);
  });
}

void ReplicaWorld::Node::report(ShardId /*shard*/, const ReplicaReport& report) {
  world.at(world.now_ + kMillisecond, [this, report] { world.hear(id, report); });
}

void ReplicaWorld::Node::fetch_view(ShardId /*shard*/) {
  world.at(world.now_ + kMillisecond, [this] { world.tell(*this); });
}

void ReplicaWorld::Node::fetch_snapshot(ShardId /*shard*/, NodeId from) {
  if (std::exchange(copying, true)) return;
  world.at(world.now_ + 5 * kMillisecond, [this, from, born = life] {
    copying = false;
    if (born == life && replica != nullptr) world.copy_shard(*this, from);
  });
}

void ReplicaWorld::Node::replica_failed(ShardId /*shard*/, const absl::Status& why) {
  world.broken(absl::StrCat("replica ", id, " failed: ", why.ToString()));
}

// --- The world

ReplicaWorld::ReplicaWorld(uint64_t seed) : rng_(seed) {
  log_options_.segment_bytes = kPageBytes * rng_.between(8, 16);
  log_options_.group_bytes_max = log_options_.segment_bytes / 2;
  log_options_.spares_at_open = 1;
  log_options_.segments_max = 64;
  engine_options_.memory.region_bytes = 4 << 10;
  engine_options_.memory.budget_bytes = kPageBytes * rng_.between(10, 50);
  engine_options_.memory.try_huge_pages = false;
  engine_options_.log.own_thread = false;
  engine_options_.applier.own_thread = false;
  engine_options_.applier.batch_max = rng_.between(2, 64);
  engine_options_.applier.flush_segments = rng_.between(1, 4);
  replica_options_.replica.append_entries_max = rng_.chance(0.3) ? 1 : 64;
  replica_options_.replica.window_entries_max = rng_.chance(0.3) ? 2 : 1024;
  replica_options_.replica.leases = rng_.chance(0.8);
  replica_options_.keep_bytes = rng_.chance(0.5) ? 500 : size_t{1} << 20;
  if (rng_.chance(0.5)) loss_ = rng_.uniform() * 0.1;
  if (rng_.chance(0.5)) refusals_ = rng_.uniform() * 0.3;
  delay_ns_ = static_cast<DurationNs>(rng_.between(1, 10)) * kMillisecond;
  crash_chance_ = rng_.uniform() * 0.002;
  for (size_t i = 0; i < kNodes; ++i) nodes_.push_back(std::make_unique<Node>(*this, i + 1, mix64(seed + i)));
  for (size_t i = 0; i < clients_.size(); ++i) {
    clients_[i].id = {100 + i, 0, 0};
    clients_[i].op.context = &clients_[i];
  }
  view_.epoch = view_.change = 1;
  view_.primary = 1;
  view_.members = {{1, 1}, {2, 1}, {3, 1}};
  view_.read_anywhere = rng_.chance(0.5);
}

ReplicaWorld::~ReplicaWorld() {
  for (const auto& node : nodes_) {
    if (node->engine != nullptr) crash(*node);
  }
}

void ReplicaWorld::broken(std::string what) {
  if (!broken_) broken_ = absl::StrCat("at ", now_ / kMillisecond, " ms: ", what);
}

ReplicaWorld::Node* ReplicaWorld::node(NodeId id) {
  return id >= 1 && id <= nodes_.size() ? nodes_[id - 1].get() : nullptr;
}

void ReplicaWorld::at(TimeNs when, absl::AnyInvocable<void()> what) {
  events_.emplace(when, std::move(what));
}

std::optional<std::string> ReplicaWorld::run() {
  for (const auto& node : nodes_) start(*node);
  while (!broken_ && now_ < kGiveUpNs) {
    now_ += kStepNs;
    faults_ = now_ < kFaultsUntilNs;
    while (!events_.empty() && events_.begin()->first <= now_) {
      auto event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
    for (const auto& node : nodes_) step(*node);
    for (Client& client : clients_) act(client);
    for (Client& client : clients_) read(client);
    keep_house();
    const bool idle = std::ranges::none_of(clients_, [](const Client& client) { return client.busy; });
    const bool whole = view_.members.size() == kNodes;
    if (!faults_ && idle && whole && now_ > kFaultsUntilNs + 3 * kSecond) {
      check_end();
      return broken_;
    }
  }
  if (!broken_) broken(absl::StrCat("it does not come to rest:", describe()));
  return broken_;
}

/// For whoever looks into a seed.
std::string ReplicaWorld::describe() const {
  std::string out = absl::StrCat(" view ", view_.epoch, ".", view_.change, " primary ", view_.primary, ",");
  for (const ReplicaId& member : view_.members) absl::StrAppend(&out, " ", member.node);
  for (const Learner& learner : view_.learners)
    absl::StrAppend(&out, " (", learner.id.node, " join ", learner.join, ")");
  for (const auto& node : nodes_) {
    absl::StrAppend(&out, "; node ", node->id);
    if (node->replica == nullptr) continue;
    const Replica& replica = node->replica->replica();
    absl::StrAppend(&out, " ", replica_role_name(replica.role()), " epoch ", replica.view().epoch, " last ",
                    replica.last_index(), " commit ", replica.commit_index(), " applied ",
                    WorkerEngine::committed_index(*node->shard), node->replica->is_serving() ? " serving" : "");
    for (NodeId peer = 1; peer <= kNodes; ++peer) {
      if (const auto levels = replica.peer_levels(peer)) {
        absl::StrAppend(&out, " [", peer, ": ", levels->received, " ", levels->durable, "]");
      }
    }
    absl::StrAppend(&out, " views.change ", replica.view().change, " base ", replica.log().base().index);
  }
  return out;
}

// --- Nodes

bool ReplicaWorld::start(Node& node) {
  ++node.life;
  if (!node.machine.running()) node.machine.restart();
  node.machine.log_disk(0).set_capacity(log_options_.segment_bytes * 80);
  auto device = node.machine.open_log_device(0);
  const RecoveryOptions options{.log = log_options_, .shards_dir = "", .chunk_bytes = rng_.below(4000), .threads = 1};
  auto recovered = recover_log(*device, options, node.machine.databases());
  if (!recovered.ok() || !recovered->refused.empty()) {
    broken(absl::StrCat(
        "recovery of node ", node.id,
        " fails: ", recovered.ok() ? recovered->refused.begin()->second.ToString() : recovered.status().ToString()));
    return false;
  }
  node.readers = std::make_unique<ReaderPool>(ReaderPool::Options{.threads = 0, .queue_jobs_max = 64});
  WorkerEngine::Events events;
  events.post = [&node](absl::AnyInvocable<void()> task) { node.tasks.push_back(std::move(task)); };
  events.write_done = [this](WriteOp& op) { written(*static_cast<Client*>(op.context)); };
  events.fetch_done = [](FetchOp&) {};
  events.applied = [](AppliedWait&) {};
  events.proposed = [this, &node](EngineShard&, const ReplicaEntry& entry) { node.replica->proposed(entry, now_); };
  events.log_moved = [&node](EngineShard&, bool refused) {
    if (node.replica != nullptr) node.replica->log_moved(refused);
  };
  auto engine = WorkerEngine::create(engine_options_, std::move(events), std::move(device), std::move(recovered->log),
                                     *node.readers);
  node.engine = *std::move(engine);
  open(node);
  tell(node);
  return true;
}

void ReplicaWorld::open(Node& node) {
  node.db = *node.machine.databases().open_db("", kShard, RocksdbEngine::IfMissing::kFail);
  node.shard = &node.engine->open_shard(*node.db, 1);
  auto replica = ShardReplica::create(replica_options_, kShard, {node.id, 1}, node.persisted, *node.engine, *node.shard,
                                      node, now_);
  if (!replica.ok()) return broken(absl::StrCat("node ", node.id, ": ", replica.status().ToString()));
  node.replica = *std::move(replica);
}

void ReplicaWorld::crash(Node& node) {
  const bool kill = rng_.chance(0.5);
  ++(kill ? tally_.kills : tally_.power_cuts);
  node.machine.end_now(kill ? Machine::End::kKill : Machine::End::kPowerCut);
  ++node.life;
  if (node.replica != nullptr) node.replica->retire();
  for (int i = 0; i < 1000 && (i < 10 || node.engine->counters().unfinished > 0); ++i) step(node);
  node.replica.reset();
  node.engine.reset();
  node.tasks.clear();
  node.readers.reset();
  node.db.reset();
  node.copying = false;
}

/// As a node does it: the shard leaves the log and is opened again with what the files of the other say.
void ReplicaWorld::copy_shard(Node& node, NodeId from) {
  Node* const source = this->node(from);
  if (source == nullptr || source->db == nullptr) return;
  ++tally_.snapshots;
  node.replica->retire();
  bool closed = false;
  node.engine->close_shard(*node.shard, [&closed] { closed = true; });
  node.replica.reset();
  for (int i = 0; i < 10000 && !closed; ++i) step(node);
  if (!closed) return broken(absl::StrCat("node ", node.id, " cannot close the shard"));
  node.db.reset();
  node.machine.database(kShard).become(source->machine.database(kShard));
  open(node);
  tell(node);
}

void ReplicaWorld::step(Node& node) {
  if (node.engine == nullptr) return;
  node.engine->set_time(static_cast<uint64_t>(now_ / kMillisecond));
  const auto run_tasks = [&node] {
    while (!node.tasks.empty()) {
      auto task = std::move(node.tasks.front());
      node.tasks.pop_front();
      task();
    }
  };
  run_tasks();
  if (rng_.chance(0.7)) static_cast<void>(node.engine->step_log());
  run_tasks();
  if (rng_.chance(0.5)) static_cast<void>(node.engine->step_applier());
  static_cast<void>(node.readers->step());
  run_tasks();
  node.engine->tick();
  if (node.replica != nullptr) node.replica->tick(now_);
}

void ReplicaWorld::deliver(NodeId to, Message message) {
  ++tally_.messages;
  if (faults_ && rng_.chance(loss_)) return;
  const auto delay = static_cast<DurationNs>(rng_.below(static_cast<uint64_t>(delay_ns_)));
  at(now_ + delay, [this, to, message = std::move(message)] {
    Node* const target = node(to);
    if (target == nullptr || target->replica == nullptr || !target->machine.running()) return;
    target->replica->on_message(message.from, message.body, message.entries, now_);
  });
}

// --- Clients

void ReplicaWorld::act(Client& client) {
  if (client.busy || (!faults_ && now_ > kFaultsUntilNs + kSecond) || !rng_.chance(0.3)) return;
  client.busy = true;
  ++client.id.seq;
  client.id.first_incomplete = client.id.seq;
  client.counts = rng_.chance(0.5);
  client.key =
      client.counts ? absl::StrCat("counter", rng_.below(3)) : absl::StrCat("key", client.id.client_id, rng_.below(3));
  client.value = absl::StrCat("value", client.id.client_id, "-", client.id.seq, std::string(rng_.below(100), 'x'));
  client.op.result = {KvStatus::kWrongShard, 0, 0};
  written(client);
}

void ReplicaWorld::written(Client& client) {
  const KvStatus status = client.op.result.status;
  if (status == KvStatus::kOk) {
    ++tally_.acknowledged;
    if (client.counts) ++client.added[client.key];
    if (!client.counts) client.put[client.key] = client.value;
    client.busy = false;
    return;
  }
  ++tally_.retries;
  if (status == KvStatus::kStaleRetry) return broken("a client is told that its write is stale");
  at(now_ + static_cast<DurationNs>(rng_.between(1, 30)) * kMillisecond, [this, &client] {
    Node& target = *nodes_[rng_.below(nodes_.size())];
    client.op.result = {KvStatus::kWrongShard, 0, 0};
    const bool serves = target.replica != nullptr && target.machine.running() && target.replica->takes_writes();
    if (!serves) return written(client);
    client.op.mutation =
        client.counts ? Mutation::add(client.key, 1) : Mutation::put(client.key, as_byte_span(client.value));
    client.op.id = client.id;
    target.engine->write(*target.shard, client.op);
  });
}

/// Of any node, one of the keys that only this client writes.
void ReplicaWorld::read(Client& client) {
  Node& target = *nodes_[rng_.below(nodes_.size())];
  if (target.replica == nullptr || !target.machine.running()) return;
  const ShardReplica& replica = *target.replica;
  if (!replica.is_serving() && !replica.reads_as_backup()) return;
  const std::string key = absl::StrCat("key", client.id.client_id, rng_.below(3));
  if (replica.reads_as_backup() && !replica.is_settled(key)) {
    ++tally_.unsettled;
    return;
  }
  std::optional<std::string> value;
  MemoryTier::Lookup found = target.engine->get(*target.shard, key);
  if (found.found == MemoryTier::Found::kHit) value = as_string_view(found.value.bytes());
  if (found.found == MemoryTier::Found::kMiss) {
    PinnedValue pinned;
    if (target.db->get(key, pinned).ok()) value = as_string_view(pinned.bytes());
  }
  if (!replica.may_read(now_)) return;
  ++(replica.is_serving() ? tally_.reads : tally_.backup_reads);
  const auto acknowledged = client.put.find(key);
  const bool newest = acknowledged == client.put.end() ? !value : value == acknowledged->second;
  const bool under_way = client.busy && client.key == key && value == client.value;
  if (newest || under_way) return;
  broken(absl::StrCat("node ", target.id, " shows ", value.value_or("nothing"), " for ", key, ", not ",
                      acknowledged == client.put.end() ? "nothing" : acknowledged->second, describe()));
}

// --- The control plane

void ReplicaWorld::hear(NodeId from, const ReplicaReport& report) {
  if (report.epoch != view_.epoch || !view_.is_member({from, 1})) return;
  Node* const about = node(report.node);
  if (about == nullptr) return;
  View next = view_;
  switch (report.kind) {
    case ReplicaReport::Kind::kSuspect:
    case ReplicaReport::Kind::kSlow: {
      const bool dead = about->replica == nullptr;
      if (!dead && !rng_.chance(0.05)) return;
      if (report.node == view_.primary) return replace_primary();
      if (!view_.is_member({report.node, 1}) || from != view_.primary) return;
      std::erase_if(next.members, [&](const ReplicaId& id) { return id.node == report.node; });
      ++next.epoch;
      return change(next);
    }
    case ReplicaReport::Kind::kNeedsEpoch: return replace_primary();
    case ReplicaReport::Kind::kCaughtUp:
      for (Learner& learner : next.learners) {
        if (learner.id.node != report.node || learner.join != 0) continue;
        learner.join = next_join_++;
        return change(next);
      }
      return;
    case ReplicaReport::Kind::kJoinReady: {
      const Learner* learner = view_.learner(report.node);
      if (learner == nullptr || learner->join == 0 || learner->join != report.join) return;
      std::erase_if(next.learners, [&](const Learner& other) { return other.id.node == report.node; });
      next.members.push_back({report.node, 1});
      std::ranges::sort(next.members, {}, &ReplicaId::node);
      ++next.epoch;
      ++tally_.joins;
      return change(next);
    }
  }
}

/// By any member that lives, the old one removed or kept; by itself if there is no other.
void ReplicaWorld::replace_primary() {
  std::vector<NodeId> candidates;
  for (const ReplicaId& member : view_.members) {
    if (member.node != view_.primary && node(member.node)->replica != nullptr) candidates.push_back(member.node);
  }
  View next = view_;
  ++next.epoch;
  if (!candidates.empty()) {
    const NodeId old = next.primary;
    next.primary = candidates[rng_.below(candidates.size())];
    if (node(old)->replica == nullptr || rng_.chance(0.5)) {
      std::erase_if(next.members, [&](const ReplicaId& id) { return id.node == old; });
    }
  } else if (node(view_.primary)->replica == nullptr) {
    return;
  }
  change(next);
}

void ReplicaWorld::change(const View& next) {
  view_ = next;
  ++view_.change;
  ++tally_.views;
  for (const auto& node : nodes_) {
    at(now_ + static_cast<DurationNs>(rng_.between(1, 30)) * kMillisecond, [this, node = node.get()] { tell(*node); });
  }
}

void ReplicaWorld::tell(Node& node) {
  if (node.replica != nullptr && node.machine.running()) node.replica->set_view(view_, now_);
}

/// Ends and starts nodes, and asks those to learn that are not members.
void ReplicaWorld::keep_house() {
  for (const auto& node : nodes_) {
    if (node->engine == nullptr) {
      if (!faults_ || rng_.chance(0.005)) start(*node);
      continue;
    }
    if (faults_ && rng_.chance(crash_chance_)) {
      crash(*node);
      continue;
    }
    const bool part = view_.is_member({node->id, 1}) || view_.learner(node->id) != nullptr;
    if (part || !rng_.chance(0.02)) continue;
    View next = view_;
    next.learners.push_back({{node->id, 1}, 0});
    std::ranges::sort(next.learners, {}, [](const Learner& learner) { return learner.id.node; });
    change(next);
  }
}

// --- The end

void ReplicaWorld::check_end() {
  Node& primary = *node(view_.primary);
  for (int i = 0; i < 2000; ++i) {
    now_ += kStepNs;
    while (!events_.empty() && events_.begin()->first <= now_) {
      auto event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
    for (const auto& node : nodes_) step(*node);
  }
  const Database::Rows& rows = primary.machine.database(kShard).rows();
  std::map<std::string, int64_t> sums;
  for (const Client& client : clients_) {
    for (const auto& [key, count] : client.added) sums[key] += count;
    for (const auto& [key, value] : client.put) {
      const auto row = rows.find(key);
      if (row == rows.end() || row->second.value != value) broken(absl::StrCat(key, " should be ", value));
    }
  }
  for (const auto& [key, sum] : sums) {
    const auto row = rows.find(key);
    const std::string have = row == rows.end() ? "absent" : row->second.value;
    if (have != absl::StrCat(sum)) broken(absl::StrCat(key, " should be ", sum, ", is ", have));
  }
  for (const auto& node : nodes_) {
    const Database& database = node->machine.database(kShard);
    if (database.rows() != rows) {
      broken(absl::StrCat("node ", node->id, " at ", database.index(), " differs from the primary, ", primary.id,
                          " at ", primary.machine.database(kShard).index()));
    }
  }
}

}  // namespace skua::kv::sim
