// What goes wrong, and what operators do.
#include <algorithm>

#include "tests/kvstore/cluster/cluster_world.h"

namespace skua::kv::sim {
namespace {

constexpr const char* kTable = "t";

}  // namespace

void ClusterWorld::start_faults() {
  faults_.every(options_.kill_every_ns, [this] { crash(any_node(), ClusterNode::End::kKill, options_.down_ns); });
  faults_.every(options_.power_cut_every_ns, [this] { power_cut(); });
  faults_.every(options_.blackout_every_ns, [this] { blackout(); });
  faults_.every(options_.wipe_every_ns, [this] { wipe(); });
  faults_.every(options_.rot_every_ns, [this] { rot(); });
  faults_.every(options_.pause_every_ns, [this] { pause(); });
  faults_.every(options_.partition_every_ns, [this] { partition(); });
  faults_.every(options_.clog_every_ns, [this] { clog(); });
  faults_.every(options_.stall_every_ns, [this] { stall(); });
  faults_.every(options_.hang_every_ns, [this] { hang(); });
  faults_.every(options_.full_every_ns, [this] { fill(); });
  faults_.every(options_.sync_error_every_ns, [this] { fail_syncs(); });
  faults_.every(options_.control_crash_every_ns, [this] { crash_control(); });
  faults_.every(options_.control_pause_every_ns, [this] { pause_control(); });
  faults_.every(options_.store_down_every_ns, [this] { lose_store(); });
  faults_.every(options_.transfer_every_ns, [this] { transfer(); });
  faults_.every(options_.coup_every_ns, [this] { coup(); });
  faults_.every(options_.move_every_ns, [this] { move(); });
  faults_.every(options_.drain_every_ns, [this] { drain(); });
  faults_.every(options_.fork_every_ns, [this] { fork(); });
  if (options_.clocks_drift || options_.clocks_step) {
    faults_.every(2 * kSecond, [this] { any_node().change_clock(); });
  }
}

ClusterNode& ClusterWorld::any_node() {
  return *nodes_[kernel_.rng.below(nodes_.size())];
}

// --- Processes, machines and disks

void ClusterWorld::start_node(ClusterNode& node) {
  if (node.is_up()) return;
  if (node.start()) {
    if (!node.has_damaged()) rotten_.erase(node.number());  // it was of no importance, or is disowned
    return;
  }
  kernel_.queue.at(kernel_.now() + 500 * kMillisecond, [this, &node] { start_node(node); });
}

void ClusterWorld::crash(ClusterNode& node, ClusterNode::End how, DurationNs down_ns) {
  kernel_.hit(how == ClusterNode::End::kKill       ? Probe::kKill
              : how == ClusterNode::End::kPowerCut ? Probe::kPowerCut
                                                   : Probe::kDiskReplaced);
  node.stop(how);
  kernel_.queue.at(kernel_.now() + kernel_.between(kMillisecond, healed_ ? kSecond : down_ns),
                   [this, &node] { start_node(node); });
}

void ClusterWorld::power_cut() {
  ClusterNode& node = any_node();
  if (node.is_up() && kernel_.rng.chance(0.6)) {
    kernel_.hit(Probe::kPowerCutInWrite);
    return node.fail_soon(kernel_.rng.below(60));
  }
  crash(node, ClusterNode::End::kPowerCut, options_.down_ns);
}

void ClusterWorld::blackout() {
  for (auto& node : nodes_) crash(*node, ClusterNode::End::kPowerCut, options_.down_ns);
}

/// Whether every shard still has somebody who has it if this node does not.
bool ClusterWorld::may_lose(const ClusterNode& node) const {
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    if (!view(shard).is_member(node.replica_id())) continue;
    const bool others = std::ranges::any_of(view(shard).members,
                                            [&](const ReplicaId& id) { return id.node != node.id() && is_intact(id); });
    if (!others) return false;
  }
  return true;
}

void ClusterWorld::wipe() {
  ClusterNode& node = any_node();
  if (may_lose(node)) crash(node, ClusterNode::End::kWiped, options_.down_ns);
}

void ClusterWorld::rot() {
  ClusterNode& node = any_node();
  if (!may_lose(node)) return;
  crash(node, kernel_.rng.chance(0.5) ? ClusterNode::End::kKill : ClusterNode::End::kPowerCut, options_.down_ns);
  if (node.rot()) rotten_.insert(node.number());
}

void ClusterWorld::pause() {
  kernel_.hit(Probe::kPause);
  any_node().pause_until(kernel_.now() + kernel_.between(kMillisecond, options_.pause_ns));
}

void ClusterWorld::stall() {
  kernel_.hit(Probe::kDiskStall);
  any_node().hang_disk_until(kernel_.now() + kernel_.between(10 * kMillisecond, kSecond));
  any_node().keep_readers_busy_until(kernel_.now() + kernel_.between(10 * kMillisecond, 5 * kSecond));
}

void ClusterWorld::hang() {
  kernel_.hit(Probe::kDiskHang);
  any_node().hang_disk_until(kernel_.now() + kernel_.between(kSecond, 8 * kSecond));
}

void ClusterWorld::fill() {
  kernel_.hit(Probe::kLogRefused);
  ClusterNode& node = any_node();
  node.set_disk_full(true);
  kernel_.queue.at(kernel_.now() + kernel_.between(50 * kMillisecond, 3 * kSecond),
                   [&node] { node.set_disk_full(false); });
}

void ClusterWorld::fail_syncs() {
  ClusterNode& node = any_node();
  node.fail_syncs(true);
  kernel_.queue.at(kernel_.now() + kernel_.between(kMillisecond, 200 * kMillisecond),
                   [&node] { node.fail_syncs(false); });
}

// --- The network

void ClusterWorld::cut(Address from, Address to, TimeNs until) {
  network_.cut(from, to, until);
  wire_.cut(from, to, until);
}

void ClusterWorld::partition() {
  const TimeNs until = kernel_.now() + kernel_.between(kMillisecond, options_.partition_ns);
  const Address first_client = options_.nodes + options_.controls;
  const Address victim = kernel_.rng.below(kernel_.rng.chance(0.8) ? options_.nodes : first_client);
  const bool one_way = kernel_.rng.chance(0.3);
  const bool outwards = kernel_.rng.chance(0.5);
  kernel_.hit(one_way ? Probe::kOneWayPartition : Probe::kPartition);
  // 0: from one other node; 1: from all nodes; 2: from the control plane; 3: from clients; 4: from everything
  const uint64_t kind = kernel_.rng.below(5);
  const Address only = kernel_.rng.below(options_.nodes);
  for (Address other = 0; other < addresses(); ++other) {
    const bool is_node = other < options_.nodes;
    const bool is_control = !is_node && other < first_client;
    const bool chosen = kind == 0   ? other == only
                        : kind == 1 ? is_node
                        : kind == 2 ? is_control
                        : kind == 3 ? !is_node && !is_control
                                    : true;
    if (other == victim || !chosen) continue;
    if (!one_way || outwards) cut(victim, other, until);
    if (!one_way || !outwards) cut(other, victim, until);
  }
}

void ClusterWorld::clog() {
  kernel_.hit(Probe::kClog);
  const TimeNs until = kernel_.now() + kernel_.between(10 * kMillisecond, 2 * kSecond);
  const Address victim = node_address(any_node().number());
  for (Address other = 0; other < addresses(); ++other) {
    if (other == victim || kernel_.rng.chance(0.5)) continue;
    for (const auto& [from, to] : {std::pair(victim, other), std::pair(other, victim)}) {
      if (!kernel_.rng.chance(0.7)) continue;
      network_.clog(from, to, until);
      wire_.clog(from, to, until);
    }
  }
}

// --- The control plane

void ClusterWorld::crash_control() {
  ControlProcess& control = *controls_[kernel_.rng.below(controls_.size())];
  if (!control.is_up()) return;
  kernel_.hit(Probe::kManagerCrash);
  control.crash();
  kernel_.queue.at(kernel_.now() + kernel_.between(100 * kMillisecond, 3 * kSecond), [&control] {
    if (!control.is_up()) control.start();
  });
}

void ClusterWorld::pause_control() {
  kernel_.hit(Probe::kControlPause);
  // Rather the one that leads: it comes back next to a new one.
  const size_t leader = store_.leader();
  const size_t which =
      leader < options_.controls && kernel_.rng.chance(0.8) ? leader : kernel_.rng.below(controls_.size());
  controls_[which]->pause_until(kernel_.now() + kernel_.between(100 * kMillisecond, 2 * options_.leader_lease_ns));
}

void ClusterWorld::lose_store() {
  kernel_.hit(Probe::kStoreDown);
  store_.go_away_until(kernel_.now() + kernel_.between(100 * kMillisecond, 8 * kSecond));
}

void ClusterWorld::ask_leader(control::Event event) {
  for (auto& control : controls_) {
    if (control->is_up()) control->on_request({0, 0, 0, event, 0});
  }
}

// --- Operators

void ClusterWorld::transfer() {
  const size_t shard = any_shard();
  const View& at = view(shard);
  const NodeId to = at.members[kernel_.rng.below(at.members.size())].node;
  if (to == at.primary || node_of(to) == nullptr) return;
  kernel_.hit(Probe::kTransfer);
  ask_leader(control::TransferPrimary{kTable, static_cast<uint32_t>(shard), node_of(to)->info().uuid});
}

/// A primary hears no node and no control process any more, clients still hear it; the others may have forgotten what
/// they promised; and somebody else is to lead.
void ClusterWorld::coup() {
  const size_t shard = any_shard();
  const View at = view(shard);
  ClusterNode* const primary = node_of(at.primary);
  if (primary == nullptr || at.members.size() < 2) return;
  kernel_.hit(Probe::kCoup);
  const Address victim = node_address(primary->number());
  const TimeNs until = kernel_.now() + kernel_.between(options_.replica.replica.lease.length_ns / 4,
                                                       options_.replica.replica.lease.length_ns * 2);
  for (Address other = 0; other < options_.nodes + options_.controls; ++other) {
    if (other == victim) continue;
    cut(victim, other, until);
    cut(other, victim, until);
  }
  std::vector<NodeId> others;
  for (const ReplicaId& id : at.members) {
    if (id.node == at.primary || node_of(id.node) == nullptr) continue;
    others.push_back(id.node);
    if (kernel_.rng.chance(0.3)) crash(*node_of(id.node), ClusterNode::End::kKill, 2 * kMillisecond);
  }
  if (others.empty()) return;
  const std::string to = node_of(others[kernel_.rng.below(others.size())])->info().uuid;
  kernel_.queue.at(kernel_.now() + kernel_.between(0, 50 * kMillisecond), [this, shard, to] {
    if (!healed_) ask_leader(control::TransferPrimary{kTable, static_cast<uint32_t>(shard), to});
  });
}

void ClusterWorld::move() {
  const size_t shard = any_shard();
  const View& at = view(shard);
  ClusterNode* const from = node_of(at.members[kernel_.rng.below(at.members.size())].node);
  const ClusterNode& to = any_node();
  if (from == nullptr || from->number() == to.number()) return;
  kernel_.hit(Probe::kMoved);
  ask_leader(control::MoveShard{kTable, static_cast<uint32_t>(shard), from->info().uuid, to.info().uuid});
}

void ClusterWorld::drain() {
  const std::string uuid = any_node().info().uuid;
  kernel_.hit(Probe::kDrained);
  ask_leader(control::DrainNode{uuid});
  kernel_.queue.at(kernel_.now() + kernel_.between(kSecond, 10 * kSecond),
                   [this, uuid] { ask_leader(control::UndrainNode{uuid}); });
}

/// Everybody who has a shard is gone, and an operator goes on with what a learner has; then the others come back.
void ClusterWorld::fork() {
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    const View at = view(shard);
    ClusterNode* const learner = at.learners.empty() ? nullptr : node_of(at.learners.front().id.node);
    if (learner == nullptr || learner->replica(shard) == nullptr) continue;
    for (const ReplicaId& id : at.members) {
      ClusterNode* const member = node_of(id.node);
      if (member == nullptr) continue;
      member->stop(ClusterNode::End::kPowerCut);
      kernel_.queue.at(kernel_.now() + 8 * kSecond, [this, member] { start_node(*member); });
    }
    for (int i = 0; i < 20; ++i) {
      kernel_.queue.at(kernel_.now() + i * 400 * kMillisecond, [this, shard, uuid = learner->info().uuid] {
        if (!healed_) ask_leader(control::ForceRecover{kTable, static_cast<uint32_t>(shard), uuid});
      });
    }
    return;
  }
  // There is no learner: somebody becomes one.
  const View& at = view(any_shard());
  ClusterNode* const member = node_of(at.members.back().node);
  if (at.members.size() < 2 || member == nullptr || member->id() == at.primary) return;
  crash(*member, ClusterNode::End::kKill, 2 * kSecond);
  for (int i = 1; i < 30; ++i) {
    kernel_.queue.at(kernel_.now() + i * 200 * kMillisecond, [this] {
      const bool any = std::ranges::any_of(views_, [](const View& known) { return !known.learners.empty(); });
      if (any && !healed_ && kernel_.rng.chance(0.2)) fork();
    });
  }
}

}  // namespace skua::kv::sim
