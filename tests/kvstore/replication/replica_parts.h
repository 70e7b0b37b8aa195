// For unit tests of a replica's parts: the state that they share, and what they put into the output.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_PARTS_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_PARTS_H_

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "kvstore/replication/replica_output.h"
#include "kvstore/replication/replica_state.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv::testing {

/// When the state was made.
inline constexpr TimeNs kBegan = 10 * kSecond;

/// The state of replica 1 in a view that is durable, with an empty log.
struct StateOfOne : ReplicaState {
  explicit StateOfOne(const View& durable) : ReplicaState(kOptions, {1, 1}, durable, OwnLog({}, 0)) {
    persisted_epoch = durable.epoch;
    role = role_in(durable);
    peers.match(durable, self.node, {.now = kBegan});
  }

  /// The log has synced its entries.
  void sync_log() { log.set_levels(LogLevels::all(log.last_index())); }
};

/// The receivers of messages of this kind, in the order of the output.
template <typename Message>
std::vector<NodeId> receivers(const ReplicaOutput& out) {
  std::vector<NodeId> nodes;
  for (const auto& envelope : out.messages) {
    if (std::holds_alternative<Message>(envelope.message)) nodes.push_back(envelope.to);
  }
  return nodes;
}

/// The first message of this kind. Null: there is none. Valid until the output changes.
template <typename Message>
const Message* find_message(const ReplicaOutput& out) {
  for (const auto& envelope : out.messages) {
    if (const auto* const message = std::get_if<Message>(&envelope.message)) return message;
  }
  return nullptr;
}

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_PARTS_H_
