// A node's talk with the control plane: as control/client/node_agent.cc, which is a thread with gRPC calls.
#include <utility>

#include "tests/kvstore/cluster/cluster_node.h"

namespace skua::kv::sim {
namespace {

enum Kind : uint64_t { kMap, kRegister, kHeartbeat, kReport };
constexpr uint64_t kKinds = 4;
constexpr DurationNs kMapPause = 50 * kMillisecond;

}  // namespace

void ClusterNode::ask_control(std::optional<control::Event> event, uint64_t kind) {
  const uint64_t number = ++asked_ * kKinds + kind;
  if (kind == kRegister || kind == kHeartbeat) awaited_ = number;
  world_.to_control(*this, control_, {number_, life_, number, std::move(event), map_ == nullptr ? 0 : map_->revision});
}

void ClusterNode::ask_map() {
  if (map_asked_ns_ != 0 && now() < map_asked_ns_ + kMapPause) return;
  map_asked_ns_ = now();
  ask_control(std::nullopt, kMap);
}

void ClusterNode::agent_tick() {
  const uint64_t round = ++agent_round_;
  if (awaited_ != 0) control_ = (control_ + 1) % options_.controls;
  if (!registered_) {
    ask_control(control::RegisterNode{map_ == nullptr ? "" : map_->cluster_id, info_, 0}, kRegister);
  } else {
    // Findings first: somebody may be waiting for another primary.
    if (!report_.empty()) {
      report_.uuid = info_.uuid;
      report_.incarnation = info_.incarnation;
      report_.instance = info_.instance;
      ask_control(report_, kReport);
    }
    control::NodeHeartbeat heartbeat{info_.uuid, info_.incarnation, info_.instance, applied_revision_};
    heartbeat.unserved = unserved_;
    ask_control(std::move(heartbeat), kHeartbeat);
  }
  later(options_.heartbeat_ns, [this, round] {
    if (round == agent_round_) agent_tick();
  });
}

/// There is news, or somebody else is to be asked.
void ClusterNode::hurry_agent() {
  later(kernel_.between(kMillisecond, 5 * kMillisecond), [this, round = agent_round_] {
    if (round == agent_round_) agent_tick();
  });
}

void ClusterNode::on_control(const ControlReply& reply) {
  if (reply.map != nullptr) on_map(reply.map);
  if (reply.number == awaited_) awaited_ = 0;
  const uint64_t kind = reply.number % kKinds;
  if (!reply.leads) {
    if (kind == kMap || reply.from != control_) return;
    control_ = reply.leader < options_.controls && reply.leader != reply.from ? reply.leader
                                                                              : (reply.from + 1) % options_.controls;
    return later(kernel_.between(20 * kMillisecond, 200 * kMillisecond), [this, round = agent_round_] {
      if (round == agent_round_) agent_tick();
    });
  }
  if (kind == kRegister && reply.status.ok()) registered_ = true;
  if (absl::IsNotFound(reply.status) && registered_) {
    registered_ = false;
    hurry_agent();
  }
  if (absl::IsFailedPrecondition(reply.status)) {
    kernel_.break_promise("a node that is nobody else's twin is told to stop: " + std::string(reply.status.message()));
  }
}

}  // namespace skua::kv::sim
