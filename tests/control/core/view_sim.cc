#include "tests/control/core/view_sim.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

constexpr DurationNs kRound = 100 * kMillisecond;
/// Logs are kept short: a replica that lacks old writes lacks new ones as well.
constexpr size_t kWritesWaiting = 8;
constexpr size_t kWritesChecked = 8;
constexpr size_t kWritesKept = 32;

/// "node@storage" of each member, the primary first.
std::set<std::string> names(const std::vector<Replica>& replicas) {
  std::set<std::string> result;
  for (const Replica& r : replicas) result.insert(absl::StrCat(r.node_uuid, "@", r.storage_incarnation));
  return result;
}

std::string describe(const ShardRecord& record) {
  std::string text = absl::StrCat("shard ", record.shard, " epoch ", record.epoch, " change ", record.change, ": ");
  for (const Replica& r : members_of(record)) {
    absl::StrAppend(&text, r.node_uuid.substr(34), "@", r.storage_incarnation, " ");
  }
  for (const Learner& l : record.learners) {
    absl::StrAppend(&text, "learner ", l.replica.node_uuid.substr(34), " join ", l.join, " ");
  }
  for (const std::string& uuid : record.leaving) absl::StrAppend(&text, "leaving ", uuid.substr(34), " ");
  return text;
}

/// Writes at the end of the log that are not committed.
size_t waiting_writes(const std::vector<uint64_t>& log, const std::vector<uint64_t>& committed) {
  const auto last = std::find_first_of(log.rbegin(), log.rend(), committed.begin(), committed.end());
  return static_cast<size_t>(last - log.rbegin());
}

void keep_last(std::vector<uint64_t>& writes, size_t count) {
  if (writes.size() > count) writes.erase(writes.begin(), writes.end() - static_cast<std::ptrdiff_t>(count));
}

}  // namespace

ViewSim::ViewSim(uint64_t seed, const SimOptions& options) : rng_(seed), options_(options), store_(empty_cluster()) {
  restart_managers();
  for (uint64_t n = 1; n <= options_.nodes; ++n) {
    Node& node = nodes_[n];
    node.info = test_node(n);
    node.info.zone = options_.zones == 0 ? "" : absl::StrCat("z", n % options_.zones);
    send(n, 0, RegisterNode{kClusterId, node.info, 0});
  }
  const Decision created = step(0, CreateTable{"t", options_.shards, false, options_.replicas});
  if (!created.status.ok()) broken_ = std::string(created.status.message());
}

void ViewSim::run(DurationNs how_long) {
  for (const TimeNs end = now_ + how_long; now_ < end && broken_.empty();) round();
}

void ViewSim::round() {
  now_ += kRound;
  ++round_;
  while (!in_flight_.empty() && rng_.chance(0.5)) {
    store_commit(in_flight_.front().base_revision, in_flight_.front().changes);
    in_flight_.erase(in_flight_.begin());
  }
  for (auto& [n, node] : nodes_) {
    if (!node.up) continue;
    if ((round_ + n) % 5 == 0) {
      for (size_t m = 0; m < managers_.size(); ++m) {
        send_heartbeat(n, m, false);
      }
    }
    act(n);
  }
  for (size_t m = 0; m < managers_.size(); ++m) {
    for (int i = 0; i < 64 && !step(m, Tick{}).changes.empty(); ++i) {
    }
    if (rng_.chance(0.05)) managers_[m].must_reload = true;
  }
  check_logs();
}

void ViewSim::send(uint64_t n, size_t manager, const Event& event) {
  const Node& node = nodes_.at(n);
  if (!node.up || node.control_cut) return;
  const absl::Status status = step(manager, event).status;
  if (status.code() == absl::StatusCode::kNotFound) step(manager, RegisterNode{kClusterId, node.info, 0});
}

Decision ViewSim::step(size_t m, const Event& event) {
  Manager& manager = managers_[m];
  Decision decision;
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (manager.must_reload && !std::holds_alternative<NodeHeartbeat>(event)) {
      manager.core.reload(store_, now_);
      manager.must_reload = false;
    }
    decision = manager.core.step(event, now_);
    if (!decision.status.ok() || decision.changes.empty()) return decision;
    const Outcome outcome = commit(manager, decision.changes);
    if (outcome == Outcome::kDone) return decision;
    manager.must_reload = true;
    decision.changes = {};
    if (outcome == Outcome::kUnknown) return decision;
  }
  return decision;
}

ViewSim::Outcome ViewSim::commit(Manager& manager, const Changes& changes) {
  const uint64_t base = manager.core.state().map_revision;
  if (rng_.chance(commit_trouble_)) {
    switch (rng_.below(3)) {
      case 0: store_commit(base, changes); break;
      case 1: in_flight_.push_back({base, changes}); break;
      default: break;
    }
    return Outcome::kUnknown;
  }
  if (!store_commit(base, changes)) return Outcome::kConflict;
  manager.core.committed(changes, now_);
  return Outcome::kDone;
}

bool ViewSim::store_commit(uint64_t base_revision, const Changes& changes) {
  if (store_.map_revision != base_revision) return false;
  if (changes.put_shards.size() > options_.views.records_per_change_max && changes.put_tables.empty()) {
    broken_ = "too many records in one change";
  }
  for (const ShardRecord& after : changes.put_shards) {
    const auto before = store_.shards.find({after.table_id, after.shard});
    if (before != store_.shards.end()) check(before->second, after);
    const ShardRecord& first = views_.try_emplace({{after.table_id, after.shard}, after.epoch}, after).first->second;
    if (!(first.primary == after.primary) || names(members_of(first)) != names(members_of(after)) ||
        first.primary_incarnation != after.primary_incarnation) {
      fail(after, "two views in one epoch (I1)");
    }
  }
  apply(changes, store_);
  return true;
}

void ViewSim::check(const ShardRecord& before, const ShardRecord& after) {
  const ShardKey key{after.table_id, after.shard};
  if (after.change != before.change + 1) fail(after, "change does not count changes");
  if (after.epoch < before.epoch || after.epoch > before.epoch + 1) fail(after, "epochs are not consecutive");
  if (members_of(after).size() != names(members_of(after)).size()) fail(after, "a member twice");
  check_former(after);
  if (after.fork != before.fork) {
    for (const Replica& member : members_of(before)) {
      if (whole(member, key)) fail(after, absl::StrCat("a fork without ", member.node_uuid.substr(34)));
    }
    // What the sole survivor lacks is lost, and known to be.
    committed_[key].clear();
    return;
  }
  const auto old = names(members_of(before));
  if (after.primary && !old.contains(*names({*after.primary}).begin())) fail(after, "primary was no member (I7)");
  for (const Replica& member : members_of(after)) {
    if (old.contains(*names({member}).begin())) continue;
    const Learner* learner = find_learner(before, member.node_uuid);
    if (learner == nullptr || learner->join == 0 || !(learner->replica == member)) fail(after, "member from nowhere");
  }
}

/// For each member that is missing there is a former one, so that no shard waits when all nodes are back.
void ViewSim::check_former(const ShardRecord& record) {
  for (const std::string& uuid : record.former) {
    if (find_member(record, uuid) != nullptr) fail(record, "a former member is a member");
  }
  const size_t members = member_count(record);
  if (members >= options_.replicas && !record.former.empty()) fail(record, "former members, and none is missing");
  if (members + record.former.size() < options_.replicas) fail(record, "a former member is forgotten");
}

void ViewSim::check_logs() {
  for (const auto& [key, record] : store_.shards) {
    for (const Replica& member : members_of(record)) {
      Node& node = nodes_.at(number_of(member.node_uuid));
      if (node.info.storage_incarnation != member.storage_incarnation) continue;
      if (node.copies[key].doubts) continue;
      const std::vector<uint64_t>& log = node.copies[key].log;
      for (const uint64_t write : committed_[key]) {
        if (std::find(log.rbegin(), log.rend(), write) != log.rend()) continue;
        fail(record, absl::StrCat("member ", member.node_uuid.substr(34), " lacks committed write ", write, " (I4)"));
        return;
      }
    }
  }
}

void ViewSim::fail(const ShardRecord& record, const std::string& what) {
  if (broken_.empty()) broken_ = absl::StrCat("round ", round_, ", ", describe(record), ": ", what);
}

// Nodes
// ----------------------------------------------------------------------------------------------------------------

bool ViewSim::connected(uint64_t a, uint64_t b) const {
  return nodes_.at(a).up && nodes_.at(b).up && !cuts_.contains(std::minmax(a, b));
}

uint64_t ViewSim::number_of(const std::string& uuid) const {
  return std::stoull(uuid.substr(24), nullptr, 16);
}

bool ViewSim::viewed(const Replica& replica) const {
  return nodes_.at(number_of(replica.node_uuid)).info.storage_incarnation == replica.storage_incarnation;
}

bool ViewSim::whole(const Replica& replica, const ShardKey& key) const {
  const Node& node = nodes_.at(number_of(replica.node_uuid));
  const auto copy = node.copies.find(key);
  return viewed(replica) && !node.lost_power && (copy == node.copies.end() || !copy->second.doubts);
}

/// The receiver takes over the primary's log, unless it knows a newer epoch.
bool ViewSim::push(uint64_t from, const Copy& copy, const ShardKey& key, const Replica& to) {
  const uint64_t n = number_of(to.node_uuid);
  if (!connected(from, n) || !viewed(to)) return false;
  Copy& theirs = nodes_.at(n).copies[key];
  if (theirs.epoch > copy.record.epoch) return false;
  theirs.epoch = copy.record.epoch;
  theirs.log = copy.log;
  theirs.doubts = false;
  theirs.fork = copy.record.fork;
  return true;
}

void ViewSim::act(uint64_t n) {
  Node& node = nodes_.at(n);
  const size_t m = rng_.below(managers_.size());
  ReplicaReport report{node.info.uuid, node.info.incarnation, node.info.instance, {}, {}, {}};
  // A node that is cut off keeps the records it has.
  if (!node.control_cut) {
    for (const auto& [key, record] : managers_[m].core.state().shards) {
      const bool part =
          find_member(record, node.info.uuid) != nullptr || find_learner(record, node.info.uuid) != nullptr;
      if (!part && !node.copies.contains(key)) continue;
      Copy& copy = node.copies[key];
      if (record.epoch < copy.epoch || record.change <= copy.record.change) continue;
      // It is told to go on with what it has.
      if (record.fork > copy.fork && is_primary(record, node.info.uuid)) copy.doubts = false;
      copy.fork = record.fork;
      copy.record = record;
      copy.epoch = record.epoch;
    }
  }
  for (auto& [key, copy] : node.copies) {
    const Replica* me = find_member(copy.record, node.info.uuid);
    if (me == nullptr || me->storage_incarnation != node.info.storage_incarnation) continue;
    if (copy.doubts) report.doubts.push_back({{key, copy.epoch}, copy.epoch, copy.log.empty() ? 0 : copy.log.back()});
    if (copy.epoch != copy.record.epoch) continue;
    if (is_primary(copy.record, node.info.uuid)) {
      if (copy.doubts) {
        report.suspicions.push_back({node.info.uuid, {{key, copy.epoch}}, "doubts"});
      } else if (copy.record.primary_incarnation == node.info.incarnation) {
        lead(n, copy, key, report);
      }
    } else {
      follow(n, copy, key, report);
    }
  }
  send(n, m, report);
}

void ViewSim::lead(uint64_t n, Copy& copy, const ShardKey& key, ReplicaReport& report) {
  const ShardAtEpoch at{key, copy.record.epoch};
  const auto accuse = [&](const Replica& replica) {
    if (rng_.chance(0.7)) report.suspicions.push_back({replica.node_uuid, {at}, "test"});
  };
  bool all = true;
  auto& committed = committed_[key];
  if (rng_.chance(0.3) && waiting_writes(copy.log, committed) < kWritesWaiting) copy.log.push_back(next_write_++);
  for (const Replica& backup : copy.record.backups) {
    if (push(n, copy, key, backup)) continue;
    all = false;
    if (!connected(n, number_of(backup.node_uuid))) accuse(backup);
  }
  for (const Learner& learner : copy.record.learners) {
    if (learner.join == 0) {
      if (rng_.chance(0.5) && push(n, copy, key, learner.replica)) {
        report.caught_up.push_back({at, learner.replica.node_uuid});
      }
      continue;
    }
    if (!push(n, copy, key, learner.replica)) {
      all = false;
      if (!connected(n, number_of(learner.replica.node_uuid))) accuse(learner.replica);
    } else if (copy.open_epoch == copy.record.epoch) {
      report.join_ready.push_back({at, learner.replica.node_uuid, learner.join});
    }
  }
  // Now and then it finds that it cannot go on in this epoch.
  if (disturbed_ && rng_.chance(0.003)) report.suspicions.push_back({nodes_.at(n).info.uuid, {at}, "test"});
  if (!all) return;
  copy.open_epoch = copy.record.epoch;
  // All members have the whole log: everything in it is committed.
  const size_t waiting = waiting_writes(copy.log, committed);
  committed.insert(committed.end(), copy.log.end() - static_cast<std::ptrdiff_t>(waiting), copy.log.end());
  committed_count_ += waiting;
  keep_last(committed, kWritesChecked);
  keep_last(copy.log, kWritesKept);
}

void ViewSim::follow(uint64_t n, const Copy& copy, const ShardKey& key, ReplicaReport& report) const {
  for (const Replica& member : members_of(copy.record)) {
    if (number_of(member.node_uuid) == n) continue;
    const bool silent = is_primary(copy.record, member.node_uuid) && !whole(member, key);
    if (connected(n, number_of(member.node_uuid)) && !silent) continue;
    report.suspicions.push_back({member.node_uuid, {{key, copy.record.epoch}}, "test"});
  }
}

// Faults
// ---------------------------------------------------------------------------------------------------------------

void ViewSim::crash(uint64_t node) {
  nodes_.at(node).up = false;
}

void ViewSim::restart(uint64_t n, bool loses_writes) {
  Node& node = nodes_.at(n);
  node.up = true;
  node.yielding = false;
  node.info.incarnation += 1;
  node.info.instance = test_uuid(n * 1000 + node.info.incarnation);
  if (loses_writes) node.info.storage_incarnation += 1;
  for (auto& [key, copy] : node.copies) {
    copy.open_epoch = 0;
    if (node.lost_power) copy.doubts = true;
    // What lost its storage has no more to doubt.
    if (loses_writes) copy.doubts = false;
    if (!loses_writes && !node.lost_power) continue;
    copy.log.resize(copy.log.size() - rng_.below(std::min<size_t>(copy.log.size() + 1, 5)));
  }
  node.lost_power = false;
  for (size_t m = 0; m < managers_.size(); ++m) send(n, m, RegisterNode{kClusterId, node.info, 0});
}

void ViewSim::lose_power() {
  const double chance = rng_.chance(0.5) ? 1 : 0.4;
  for (auto& [n, node] : nodes_) {
    if (!rng_.chance(chance)) continue;
    node.lost_power = true;
    crash(n);
    if (rng_.chance(0.7)) restart(n, false);
  }
}

void ViewSim::restart_managers() {
  managers_.clear();
  for (int i = 0; i < 2; ++i) {
    managers_.push_back({ClusterCore({.suspect_after_ns = 3 * kSecond, .views = options_.views}, store_, now_), false});
  }
}

void ViewSim::cut(uint64_t a, uint64_t b, bool is_cut) {
  if (is_cut) {
    cuts_.insert(std::minmax(a, b));
  } else {
    cuts_.erase(std::minmax(a, b));
  }
}

void ViewSim::cut_from_control(uint64_t node, bool is_cut) {
  nodes_.at(node).control_cut = is_cut;
}

void ViewSim::send_heartbeat(uint64_t n, size_t manager, bool stopping) {
  const Node& node = nodes_.at(n);
  NodeHeartbeat heartbeat{.uuid = node.info.uuid, .incarnation = node.info.incarnation, .instance = node.info.instance};
  heartbeat.stopping = stopping;
  heartbeat.yielding = node.yielding;
  send(n, manager, heartbeat);
}

void ViewSim::disturb() {
  disturbed_ = true;
  const uint64_t n = rng_.between(1, options_.nodes);
  const uint64_t other = rng_.between(1, options_.nodes);
  const uint32_t shard = static_cast<uint32_t>(rng_.below(options_.shards));
  const size_t m = rng_.below(managers_.size());
  commit_trouble_ = rng_.chance(0.3) ? 0.3 : 0;
  switch (rng_.below(15)) {
    case 0:
    case 1: return crash(n);
    case 2:
    case 3:
    case 4: return restart(n, rng_.chance(0.15));
    case 5:
      if (n != other) cut(n, other, true);
      return;
    case 6: return cuts_.clear();
    case 7: return cut_from_control(n, rng_.chance(0.5));
    case 8: step(m, DrainNode{test_uuid(n)}); return;
    case 9: step(m, UndrainNode{test_uuid(n)}); return;
    case 10: step(m, MoveShard{"t", shard, test_uuid(n), test_uuid(other)}); return;
    case 11: return lose_power();
    case 12: step(m, TransferPrimary{"t", shard, test_uuid(n)}); return;
    case 13: nodes_.at(n).yielding = !nodes_.at(n).yielding; return;
    default: send_heartbeat(n, m, true);
  }
}

void ViewSim::heal() {
  disturbed_ = false;
  cuts_.clear();
  commit_trouble_ = 0;
  for (auto& [n, node] : nodes_) {
    node.control_cut = false;
    restart(n, false);
    step(0, UndrainNode{node.info.uuid});
  }
}

void ViewSim::recover_hopeless_shards() {
  for (const auto& [key, record] : ClusterState(store_).shards) {
    const auto members = members_of(record);
    if (std::any_of(members.begin(), members.end(), [&](const Replica& r) { return whole(r, key); })) continue;
    const auto kept = std::find_if(members.begin(), members.end(), [&](const Replica& r) { return viewed(r); });
    step(0, ForceRecover{"t", key.second, kept == members.end() ? members.front().node_uuid : kept->node_uuid});
  }
}

size_t ViewSim::unsettled() const {
  size_t count = 0;
  for (const auto& [key, record] : store_.shards) {
    const auto members = members_of(record);
    const bool good = members.size() == options_.replicas && record.learners.empty() && record.leaving.empty() &&
                      std::all_of(members.begin(), members.end(),
                                  [&](const Replica& r) { return viewed(r) && nodes_.at(number_of(r.node_uuid)).up; });
    if (!good) ++count;
  }
  return count;
}

size_t ViewSim::committed_writes() const {
  return committed_count_;
}

}  // namespace skua::control
