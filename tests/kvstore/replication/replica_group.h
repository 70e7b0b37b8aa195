// Group: replicas of one shard for unit tests.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_GROUP_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_GROUP_H_

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "kvstore/replication/message_codec.h"
#include "kvstore/replication/replica.h"

namespace skua::kv::testing {

inline constexpr ReplicaOptions kOptions{};

/// Replicas of one shard, joined by hand: messages arrive in order at once unless a node is cut off, logs are durable
/// when the test says so.
class Group {
 public:
  explicit Group(std::vector<NodeId> nodes) {
    for (const NodeId node : nodes) start(node, {});
  }

  void start(NodeId node, Replica::Restart restart) {
    replicas_[node] = std::make_unique<Replica>(kOptions, ReplicaId{node, 1}, std::move(restart), now);
  }

  Replica& operator[](NodeId node) { return *replicas_.at(node); }

  void view(View view) {
    for (auto& [node, replica] : replicas_) view_to(node, view);
    settle();
  }
  void view_to(NodeId node, const View& view) {
    if (view.newer_than(newest_)) newest_ = view;
    ReplicaOutput out;
    replicas_.at(node)->on_view(view, now, out);
    take(node, out);
  }
  void propose(NodeId node, Durability level = Durability::kSync) {
    ReplicaOutput out;
    replicas_.at(node)->propose(level, now, out);
    take(node, out);
    settle();
  }
  void pass(DurationNs time) {
    for (const TimeNs end = now + time; now < end;) {
      now += 10 * kMillisecond;
      for (auto& [node, replica] : replicas_) {
        ReplicaOutput out;
        if (!cut.contains(node)) {
          replica->tick(now, out);
          EXPECT_GT(replica->wake_at(), now) << "node " << node << " would be asked again at once, and again";
        }
        take(node, out);
      }
      settle();
    }
  }

  void settle() {
    while (!queue_.empty()) {
      auto [from, envelope] = std::move(queue_.front());
      queue_.pop_front();
      if (cut.contains(from) || cut.contains(envelope.to) || !replicas_.contains(envelope.to)) continue;
      if (!fits(envelope.message)) continue;
      ReplicaOutput out;
      replicas_.at(envelope.to)->on_message({from, 1}, envelope.message, now, out);
      take(envelope.to, out);
    }
  }

  /// Does what a replica asks for.
  void take(NodeId node, ReplicaOutput& out) {
    Replica& replica = *replicas_.at(node);
    for (const auto& envelope : out.messages) queue_.emplace_back(node, envelope);
    for (const auto& send : out.sends) {
      queue_.emplace_back(node, ReplicaOutput::Envelope{send.to, replica.make_append(send.first, send.last)});
    }
    for (const auto& report : out.reports) reports.emplace_back(node, report);
    if (out.fetch_view && !cut.contains(node)) view_to(node, newest_);
    if (out.persist_view) {
      ReplicaOutput next;
      replica.view_persisted(out.persist_view->epoch, now, next);
      take(node, next);
    }
    if (!stuck_logs.contains(node) && replica.role() != ReplicaRole::kInactive) {
      const uint64_t last = replica.last_index();
      if (durable_[node] != last || out.truncate_after) {
        durable_[node] = last;
        if (!unsynced_logs.contains(node)) synced_[node] = last;
        ReplicaOutput next;
        replica.log_progress({last, last, std::min(synced_[node], last)}, now, next);
        take(node, next);
      }
    }
  }

  /// As a link: what does not fit into a frame is not sent.
  static bool fits(const ReplicaMessage& message) {
    FrameBuffer buffer;
    return std::holds_alternative<Append>(message) || encode_frame({}, message, buffer).ok();
  }

  TimeNs now = kSecond;
  std::set<NodeId> cut;
  std::set<NodeId> stuck_logs;
  std::set<NodeId> unsynced_logs;  // write and do not sync
  std::vector<std::pair<NodeId, ReplicaReport>> reports;

 private:
  View newest_;  // as the control plane has it
  std::map<NodeId, std::unique_ptr<Replica>> replicas_;
  std::map<NodeId, uint64_t> durable_;  // or written: told, anyhow
  std::map<NodeId, uint64_t> synced_;
  std::deque<std::pair<NodeId, ReplicaOutput::Envelope>> queue_;
};

inline View view_of(uint64_t epoch, NodeId primary, std::vector<NodeId> members) {
  View view;
  view.epoch = view.change = epoch;
  view.primary = primary;
  for (const NodeId node : members) view.members.push_back({node, 1});
  return view;
}

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_GROUP_H_
