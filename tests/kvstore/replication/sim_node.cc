#include "tests/kvstore/replication/sim_node.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "kvstore/replication/message_codec.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kAlivePeriod = 100 * kMillisecond;
constexpr DurationNs kAskPeriod = 20 * kMillisecond;

}  // namespace

SimNode::SimNode(SimKernel& kernel, Oracle& oracle, const ReplicationSimOptions& options, NodeWorld& world, NodeId id)
    : kernel_(kernel), oracle_(oracle), options_(options), world_(world), id_(id) {
  disk_.write_ns = options.write_ns;
  disk_.sync_ns = options.sync_ns;
  disk_.jitter_ns = options.disk_jitter_ns;
  disk_.life = 1;
  for (size_t shard = 0; shard < options.shards; ++shard) {
    storages_.push_back(std::make_unique<ModelStorage>(kernel_, disk_, options.keys));
  }
  clock_base_ = kernel_.between(0, 1'000'000 * kSecond);
  change_clock_rate();
}

// --- Life

void SimNode::start() {
  if (up_) return;
  up_ = true;
  failing_ = false;
  disk_.hangs = false;
  heard_lives_.clear();
  asked_view_.assign(options_.shards, 0);
  kernel_.note("start", id_, life(), incarnation_);
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    drivers_.push_back(
        std::make_unique<ReplicaDriver>(kernel_, oracle_, options_, *this, shard, this->id(), *storages_[shard]));
  }
  say_alive();
}

void SimNode::stop(bool power_cut, bool loses, bool other_disk) {
  kernel_.note("stop", id_, power_cut ? 1 : 0, loses ? 1 : 0, other_disk ? 1 : 0);
  if (up_) {
    for (auto& storage : storages_) storage->end_process(power_cut);
  }
  up_ = false;
  ++disk_.life;
  drivers_.clear();
  disk_.paused_until = 0;
  if (loses) {
    ++incarnation_;
    kernel_.hit(Probe::kNewIncarnation);
  }
  if (other_disk) {
    for (auto& storage : storages_) storage->wipe();
  }
  if (power_cut) {
    clock_base_ = kernel_.between(0, kernel_.rng.chance(0.5) ? kSecond : 1'000'000 * kSecond);
    clock_since_ = kernel_.now();
  }
}

void SimNode::change_clock_rate() {
  clock_base_ = now();
  clock_since_ = kernel_.now();
  if (!options_.clocks_drift) return;
  const int64_t most = options_.replica.lease.drift_ppm;
  clock_ppm_ = kernel_.rng.chance(0.5) ? kernel_.between(-most, most) : (kernel_.rng.chance(0.5) ? most : -most);
}

TimeNs SimNode::now() const {
  const TimeNs passed = kernel_.now() - clock_since_;
  return clock_base_ + passed + passed * clock_ppm_ / 1'000'000;
}

void SimNode::run(TimeNs at, absl::AnyInvocable<void()> then) {
  kernel_.queue.at(at, [this, life = life(), then = std::move(then)]() mutable {
    if (life != this->life() || !up_) return;
    if (kernel_.now() < disk_.paused_until) return run(disk_.paused_until, std::move(then));
    then();
  });
}

void SimNode::later(DurationNs after, absl::AnyInvocable<void()> then) {
  const DurationNs passes = after - after * clock_ppm_ / 1'000'000;
  run(kernel_.now() + std::max<DurationNs>(passes, 0), std::move(then));
}

void SimNode::say_alive() {
  std::vector<View> views;
  for (const auto& driver : drivers_) views.push_back(driver->replica().view());
  world_.to_managers(id_, [id = id(), views](ViewManagerModel& manager) { manager.on_alive(id, views); });
  later(kAlivePeriod, [this] { say_alive(); });
}

// --- Input

void SimNode::on_peer(const PeerMessage& message) {
  uint64_t& heard = heard_lives_[message.from.node];
  if (message.from_life < heard) return;
  heard = message.from_life;
  ReplicaDriver& driver = *drivers_[message.shard];
  if (const auto* snapshot = std::get_if<Snapshot>(&message.body)) {
    // Written to disk for a while, then taken.
    return later(options_.sync_ns + kernel_.between(0, 300 * kMillisecond),
                 [&driver, snapshot = *snapshot] { driver.on_snapshot(snapshot.state, snapshot.base); });
  }
  if (std::holds_alternative<AskSnapshot>(message.body)) return driver.on_snapshot_asked(message.from.node);
  const auto& body = std::get<ReplicaMessage>(message.body);
  kernel_.note("message", message.shard, message.from.node, id_, body.index());
  driver.on_message(message.from, body, message.entries);
}

void SimNode::on_view(size_t shard, const View& view) {
  drivers_[shard]->on_view(view);
}

void SimNode::on_request(const ClientRequest& request) {
  drivers_[request.shard]->on_request(request);
}

void SimNode::on_peer_failed(NodeId peer) {
  for (auto& driver : drivers_) driver->peer_failed(peer);
}

// --- DriverHost

void SimNode::send_body(size_t shard, NodeId to, std::variant<ReplicaMessage, AskSnapshot, Snapshot> body,
                        std::vector<LogEntry> entries) {
  if (to == id_ || to == 0) return kernel_.break_promise("a message to nobody, or to itself");
  world_.to_peer({id(), life(), to, 0, shard, std::move(body), std::move(entries)});
}

void SimNode::send(size_t shard, NodeId to, const ReplicaMessage& message, std::vector<LogEntry> entries) {
  check_epoch_durable(shard, message);
  FrameBuffer buffer;
  if (!std::holds_alternative<Append>(message) && !encode_frame({}, message, buffer).ok()) {
    return kernel_.break_promise(absl::StrFormat("shard %d node %d: a message does not fit into a frame", shard, id_));
  }
  send_body(shard, to, message, std::move(entries));
}

void SimNode::check_epoch_durable(size_t shard, const ReplicaMessage& message) {
  const uint64_t epoch = std::visit(
      [](const auto& body) {
        if constexpr (requires { body.view; }) {
          return body.view.epoch;
        } else {
          return body.epoch;
        }
      },
      message);
  if (epoch <= storages_[shard]->durable_epoch()) return;
  kernel_.break_promise(
      absl::StrFormat("I2: shard %d node %d speaks in epoch %d before it is durable", shard, id_, epoch));
}

void SimNode::report(size_t shard, const ReplicaReport& report) {
  kernel_.note("report", shard, id_, static_cast<uint64_t>(report.kind), report.node);
  world_.to_managers(
      id_, [shard, from = id_, report](ViewManagerModel& manager) { manager.on_report(shard, from, report); });
}

void SimNode::ask_view(size_t shard) {
  if (now() < asked_view_[shard] + kAskPeriod) return;
  asked_view_[shard] = now();
  world_.to_managers(id_, [shard, from = id_](ViewManagerModel& manager) { manager.on_ask(shard, from); });
}

void SimNode::ask_snapshot(size_t shard, NodeId source) {
  send_body(shard, source, AskSnapshot{}, {});
}

void SimNode::send_snapshot(size_t shard, NodeId to, const ShardState& state, EntryId base) {
  send_body(shard, to, Snapshot{state, base}, {});
}

void SimNode::reply(const ClientReply& reply) {
  world_.to_client(id_, reply);
}

void SimNode::committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) {
  world_.entry_committed(shard, index, entry, replica);
}

void SimNode::fail_process() {
  if (failing_) return;
  failing_ = true;
  kernel_.queue.at(kernel_.now(), [this, life = life()] {
    failing_ = false;
    if (life == this->life()) world_.process_failed(id_);
  });
}

}  // namespace skua::kv::sim
