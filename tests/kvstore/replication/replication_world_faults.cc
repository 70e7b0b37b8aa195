// What goes wrong.
#include <algorithm>

#include "tests/kvstore/replication/replication_world.h"

namespace skua::kv::sim {

void ReplicationWorld::start_faults() {
  faults_.every(options_.kill_every_ns, [this] { kill(); });
  faults_.every(options_.power_cut_every_ns, [this] { power_cut(); });
  faults_.every(options_.blackout_every_ns, [this] { blackout(); });
  faults_.every(options_.disk_replaced_every_ns, [this] { replace_disk(); });
  faults_.every(options_.pause_every_ns, [this] { pause(); });
  faults_.every(options_.partition_every_ns, [this] { partition(); });
  faults_.every(options_.clog_every_ns, [this] { clog(); });
  faults_.every(options_.stall_every_ns, [this] { stall(); });
  faults_.every(options_.hang_every_ns, [this] { hang(); });
  faults_.every(options_.full_every_ns, [this] { fill(); });
  faults_.every(options_.manager_crash_every_ns, [this] { crash_manager(); });
  faults_.every(options_.store_down_every_ns, [this] { lose_store(); });
  faults_.every(options_.transfer_every_ns, [this] { transfer(); });
  faults_.every(options_.coup_every_ns, [this] { coup(); });
  faults_.every(options_.see_saw_every_ns, [this] { see_saw(); });
  if (options_.clocks_drift) faults_.every(2 * kSecond, [this] { change_clock(); });
}

SimNode& ReplicationWorld::any_node() {
  return *nodes_[kernel_.rng.below(nodes_.size())];
}

// --- Processes and machines

/// Whether a shard still has somebody who has it if this node does not.
bool ReplicationWorld::may_lose(const SimNode& node) const {
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    const View& view = store_.view(shard);
    if (!view.is_member(node.id())) continue;
    const bool others = std::any_of(view.members.begin(), view.members.end(), [&](const ReplicaId& id) {
      return id.node != node.id().node && nodes_[id.node - 1]->id() == id;
    });
    if (!others) return false;
  }
  return true;
}

void ReplicationWorld::crash(SimNode& node, bool power_cut, bool other_disk, DurationNs down_ns) {
  const bool loses = other_disk || (node.is_up() && (options_.durability == Durability::kMemory ||
                                                     (options_.durability == Durability::kFlush && power_cut)));
  if (loses && !may_lose(node)) return;
  kernel_.hit(other_disk ? Probe::kDiskReplaced : power_cut ? Probe::kPowerCut : Probe::kKill);
  node.stop(power_cut, loses, other_disk || (loses && kernel_.rng.chance(0.5)));
  const NodeId id = node.id().node;
  for (auto& other : nodes_) {
    if (!options_.tells_breaks || other->id().node == id) continue;
    SimNode& peer = *other;
    peer.run(kernel_.now() + kernel_.between(0, 20 * kMillisecond), [&peer, id] { peer.on_peer_failed(id); });
  }
  kernel_.queue.at(kernel_.now() + kernel_.between(kMillisecond, down_ns), [&node] { node.start(); });
}

void ReplicationWorld::process_failed(NodeId id) {
  crash(node(id), false, false, options_.down_ns);
  node(id).disk().hangs = false;
}

void ReplicationWorld::kill() {
  crash(any_node(), false, false, options_.down_ns);
}

void ReplicationWorld::power_cut() {
  crash(any_node(), true, false, options_.down_ns);
}

void ReplicationWorld::blackout() {
  for (auto& node : nodes_) crash(*node, true, false, options_.down_ns);
}

void ReplicationWorld::replace_disk() {
  crash(any_node(), true, true, options_.down_ns);
}

void ReplicationWorld::pause() {
  kernel_.hit(Probe::kPause);
  any_node().pause_until(kernel_.now() + kernel_.between(kMillisecond, options_.pause_ns));
}

void ReplicationWorld::change_clock() {
  any_node().change_clock_rate();
}

// --- The network

void ReplicationWorld::partition() {
  const TimeNs until = kernel_.now() + kernel_.between(kMillisecond, options_.partition_ns);
  const size_t addresses = options_.nodes + 2 + options_.clients;
  const Address victim = node_address(any_node().id().node);
  const bool one_way = kernel_.rng.chance(0.3);
  const bool outwards = kernel_.rng.chance(0.5);
  kernel_.hit(one_way ? Probe::kOneWayPartition : Probe::kPartition);
  // 0: from one other node; 1: from all nodes; 2: from the managers; 3: from clients; 4: from everything
  const uint64_t kind = kernel_.rng.below(5);
  const Address only = kernel_.rng.below(options_.nodes);
  for (Address other = 0; other < addresses; ++other) {
    const bool is_node = other < options_.nodes;
    const bool is_manager = !is_node && other < options_.nodes + 2;
    const bool chosen = kind == 0   ? other == only
                        : kind == 1 ? is_node
                        : kind == 2 ? is_manager
                        : kind == 3 ? !is_node && !is_manager
                                    : true;
    if (other == victim || !chosen) continue;
    if (!one_way || outwards) network_.cut(victim, other, until);
    if (!one_way || !outwards) network_.cut(other, victim, until);
  }
}

void ReplicationWorld::clog() {
  kernel_.hit(Probe::kClog);
  const TimeNs until = kernel_.now() + kernel_.between(10 * kMillisecond, 2 * kSecond);
  const Address victim = node_address(any_node().id().node);
  for (Address other = 0; other < options_.nodes + 2 + options_.clients; ++other) {
    if (other == victim || kernel_.rng.chance(0.5)) continue;
    if (kernel_.rng.chance(0.7)) network_.clog(victim, other, until);
    if (kernel_.rng.chance(0.7)) network_.clog(other, victim, until);
  }
}

// --- Disks

void ReplicationWorld::stall() {
  kernel_.hit(Probe::kDiskStall);
  any_node().disk().stalled_until = kernel_.now() + kernel_.between(10 * kMillisecond, 2 * kSecond);
}

void ReplicationWorld::hang() {
  kernel_.hit(Probe::kDiskHang);
  SimNode& node = any_node();
  node.disk().hangs = true;
  kernel_.queue.at(kernel_.now() + kernel_.between(kSecond, 8 * kSecond), [&node] { node.disk().hangs = false; });
}

void ReplicationWorld::fill() {
  SimNode& node = any_node();
  node.disk().full = true;
  kernel_.queue.at(kernel_.now() + kernel_.between(50 * kMillisecond, 2 * kSecond),
                   [&node] { node.disk().full = false; });
}

// --- The control plane

void ReplicationWorld::crash_manager() {
  ViewManagerModel& manager = *managers_[kernel_.rng.below(managers_.size())];
  kernel_.hit(Probe::kManagerCrash);
  manager.crash();
  kernel_.queue.at(kernel_.now() + kernel_.between(100 * kMillisecond, 3 * kSecond), [&manager] {
    if (!manager.is_up()) manager.start();
  });
}

void ReplicationWorld::lose_store() {
  kernel_.hit(Probe::kStoreDown);
  store_.go_away_until(kernel_.now() + kernel_.between(100 * kMillisecond, 8 * kSecond));
}

void ReplicationWorld::transfer() {
  ViewManagerModel& manager = *managers_[kernel_.rng.below(managers_.size())];
  if (manager.is_up()) manager.transfer(kernel_.rng.below(options_.shards));
}

void ReplicationWorld::coup() {
  const size_t shard = kernel_.rng.below(options_.shards);
  const NodeId victim = store_.view(shard).primary;
  depose_cut_off(shard);
  if (!kernel_.rng.chance(0.4)) return;
  // It leads once more, and the same happens to it.
  const TimeNs again = kernel_.now() + kernel_.between(200 * kMillisecond, 2 * kSecond);
  transfer_at(again, shard, victim);
  kernel_.queue.at(again + kernel_.between(30 * kMillisecond, 600 * kMillisecond), [this, shard, victim] {
    if (!healed_ && store_.view(shard).primary == victim) depose_cut_off(shard);
  });
}

/// A primary hears no node and no manager any more, clients still hear it; the others may have forgotten what they
/// promised.
void ReplicationWorld::depose_cut_off(size_t shard) {
  const View& view = store_.view(shard);
  const Address victim = node_address(view.primary);
  const DurationNs lease = options_.replica.lease.length_ns;
  const TimeNs until = kernel_.now() + kernel_.between(lease / 4, lease * 2);
  for (Address other = 0; other < options_.nodes + 2; ++other) {
    if (other == victim) continue;
    network_.cut(victim, other, until);
    network_.cut(other, victim, until);
  }
  if (kernel_.rng.chance(0.5)) {
    for (const ReplicaId& id : view.members) {
      if (id.node != view.primary && kernel_.rng.chance(0.8)) crash(node(id.node), false, false, 2 * kMillisecond);
    }
  }
  kernel_.queue.at(kernel_.now() + kernel_.between(0, 10 * kMillisecond), [this, shard] {
    for (auto& manager : managers_) {
      if (manager->is_up() && !healed_) manager->depose(shard);
    }
  });
}

/// One member hears nothing of the primary for a while, then leads itself: what the others had acknowledged is
/// replaced. Then the former primary leads again.
void ReplicationWorld::see_saw() {
  const size_t shard = kernel_.rng.below(options_.shards);
  const View& view = store_.view(shard);
  const NodeId next = view.members[kernel_.rng.below(view.members.size())].node;
  if (view.members.size() < 3 || next == view.primary) return;
  kernel_.hit(Probe::kSeeSaw);
  const TimeNs first = kernel_.now() + kernel_.between(10 * kMillisecond, 150 * kMillisecond);
  network_.cut(node_address(view.primary), node_address(next), first + 10 * kMillisecond);
  transfer_at(first, shard, next);
  transfer_at(first + kernel_.between(20 * kMillisecond, 200 * kMillisecond), shard, view.primary);
}

void ReplicationWorld::transfer_at(TimeNs when, size_t shard, NodeId to) {
  kernel_.queue.at(when, [this, shard, to] {
    for (auto& manager : managers_) {
      if (manager->is_up() && !healed_) manager->transfer_to(shard, to);
    }
  });
}

}  // namespace skua::kv::sim
