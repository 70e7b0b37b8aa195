// A node and its peers: what its replicas want of the rest of the node (ReplicaHost), and sessions.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "rpc/base/status.h"
#include "tests/kvstore/cluster/cluster_node.h"

namespace skua::kv::sim {

void ClusterNode::on_peer(const NodeMessage& message) {
  uint64_t& heard = heard_lives_[message.from.node];
  if (message.from_life < heard) return;
  heard = message.from_life;
  if (serving(message.shard) == nullptr || !machine_->running()) return;
  kernel_.note("again", message.shard, message.from.node >> 32, number_, message.body.index());
  wire_.enter();
  static_cast<void>(
      worker_->server().on_replica_message(shard_id(message.shard), message.from, message.body, message.entries));
  observe(message.shard);
  kick();
}

void ClusterNode::send(ShardId shard, NodeId to, const ReplicaMessage& message) {
  check_epoch_durable(shard.shard, message);
  if (std::holds_alternative<Confirm>(message)) kernel_.hit(Probe::kConfirmedRead);
  send_again(shard, to, message, {});
  worker_->peers().send(shard, to, message);
}

void ClusterNode::check_epoch_durable(size_t shard, const ReplicaMessage& message) {
  const uint64_t epoch = std::visit(
      [](const auto& body) {
        if constexpr (requires { body.view; }) {
          return body.view.epoch;
        } else {
          return body.epoch;
        }
      },
      message);
  if (std::exchange(views_read_, files_->changes()) != files_->changes()) views_ = durable_views();
  const auto durable = views_.find(shard_id(shard));
  if (durable != views_.end() && epoch <= durable->second.epoch) return;
  kernel_.break_promise(
      absl::StrFormat("I2: shard %d node %d speaks in epoch %d before it is durable", shard, number_, epoch));
}

size_t ClusterNode::send_entries(ShardId shard, NodeId to, const Append& append, std::span<Entry* const> entries) {
  check_epoch_durable(shard.shard, append);
  send_again(shard, to, ReplicaMessage(append), entries);
  return worker_->peers().send_entries(shard, to, append, entries);
}

/// Now and then a message comes once more, some of them late.
void ClusterNode::send_again(ShardId shard, NodeId to, const ReplicaMessage& message, std::span<Entry* const> entries) {
  if (world_.is_healed() || options_.duplicate == 0) return;
  // There are few of these, so they come again more often.
  const bool is_rare = std::holds_alternative<Release>(message);
  if (!is_rare && !kernel_.rng.chance(options_.duplicate)) return;
  auto copy = std::make_shared<NodeMessage>();
  copy->from = replica_id();
  copy->from_life = life_;
  copy->to = to;
  copy->shard = shard.shard;
  copy->body = message;
  for (const Entry* sent : entries) {
    ReplicaEntry entry = sent->view();
    entry.payload = as_byte_span(copy->payloads.emplace_back(as_string_view(entry.payload)));
    copy->entries.push_back(entry);
  }
  world_.to_peer(*this, copy);
  if (!is_rare && !kernel_.rng.chance(0.2)) return;
  for (int i = 0; i < (is_rare ? 5 : 1); ++i) {
    kernel_.queue.at(kernel_.now() + kernel_.between(0, 4 * kSecond), [this, copy] {
      if (!world_.is_healed()) world_.to_peer(*this, copy);
    });
  }
}

// --- Sessions to peers

void ClusterNode::describe(const std::string& grpc_address, const std::string& /*cluster_id*/, DescribeFn done) {
  world_.describe(*this, grpc_address, std::move(done));
}

void ClusterNode::open_session(const control::OpenSessionRequest& request, OpenSessionFn done) {
  world_.open_session(*this, request, std::move(done));
}

control::NodeDescription ClusterNode::description() const {
  const rpc::Descriptor descriptor = worker_->endpoint().local_descriptor();
  return {info_.uuid, info_.incarnation, cluster_uuid(), {{0, {{descriptor.transport, descriptor.encode()}}}}};
}

std::string ClusterNode::accept_offer(const std::string& offer) {
  wire_.enter();
  std::string answer = worker_->endpoint().accept_offer(as_byte_span(offer));
  kick();
  return answer;
}

// --- The rest of ReplicaHost

void ClusterNode::persist_view(ShardId shard, const View& view) {
  kernel_.note("adopt", shard.shard, number_, view.epoch, view.primary >> 32);
  news_.adopted[shard] = view;
  tell_news();
}

void ClusterNode::allow_unsynced(ShardId shard) {
  news_.unsynced.allowed.insert(shard);
  tell_news();
}

/// At once: production takes it that a process whose disk has just failed lives for some milliseconds.
void ClusterNode::put_in_doubt(ShardId shard) {
  static_cast<void>(unsynced_->put_in_doubt({shard}));
}

void ClusterNode::restored(ShardId shard) {
  kernel_.hit(Probe::kRestored);
  kernel_.note("restored", shard.shard, number_);
  findings_->restored(shard);
  news_.unsynced.restored.insert(shard);
  tell_news();
}

void ClusterNode::report(ShardId shard, const ReplicaReport& report) {
  kernel_.note("report", shard.shard, number_, static_cast<uint64_t>(report.kind), report.node >> 32);
  findings_->report(shard, report, now());
}

void ClusterNode::fetch_view(ShardId /*shard*/) {
  ask_map();
}

void ClusterNode::fetch_snapshot(ShardId shard, NodeId from) {
  worker_->peers().fetch_snapshot(shard, from);
}

const PeerInfo* ClusterNode::peer(NodeId node) const {
  return worker_->peers().peer(node);
}

void ClusterNode::replica_failed(ShardId shard, const absl::Status& /*why*/) {
  // Only a copy would help; until somebody restarts the process, the others go on without it.
  kernel_.note("replica fails", shard.shard, number_);
  restart_by_operator(kernel_.between(kSecond, kRepairMax));
}

}  // namespace skua::kv::sim
