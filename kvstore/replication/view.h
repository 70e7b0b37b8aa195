// Views: which nodes hold a shard. The control plane decides on one view after the other.
//
//    epoch 7 {A*, B, C}  --A dies-->  epoch 8 {B*, C}  --A learns, joins-->  epoch 9 {B*, C, A}        * primary
//
// A view is changed only by compare-and-swap in the metadata store, so each epoch has one view. The primary of epoch
// v+1 is a member of epoch v. The members of v+1 are members of v, or learners that had joined in v (replica.h).
#ifndef SKUA_KVSTORE_REPLICATION_VIEW_H_
#define SKUA_KVSTORE_REPLICATION_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace skua::kv {

/// The first eight bytes of a node's UUID. They are random except for four bits. 0: no node.
using NodeId = uint64_t;

/// A node together with its storage incarnation. Under another incarnation the node may have lost writes that it had
/// acknowledged, so it counts as another replica.
struct ReplicaId {
  NodeId node = 0;
  uint64_t incarnation = 0;

  friend bool operator==(const ReplicaId&, const ReplicaId&) = default;
};

struct Learner {
  ReplicaId id;
  /// 0: the learner only follows the log. Otherwise the number of an attempt to make it a member; no number is used
  /// twice. During the attempt the primary commits nothing and serves no leased read without the learner.
  uint64_t join = 0;

  friend bool operator==(const Learner&, const Learner&) = default;
};

struct View {
  uint64_t epoch = 0;   ///< +1 for each change of primary or members; 0: no view
  uint64_t change = 0;  ///< +1 for each change of the record: orders the views of one epoch
  NodeId primary = 0;
  std::vector<ReplicaId> members;  ///< with the primary; sorted by node
  std::vector<Learner> learners;   ///< sorted by node
  uint32_t min_insync = 1;         ///< with fewer members no write is accepted
  uint64_t fork = 0;               ///< +1 when a recovery gave writes up; in the shard map, not in peers' messages
  bool read_anywhere = false;      ///< members other than the primary serve linearizable reads, too

  [[nodiscard]] bool is_member(const ReplicaId& id) const {
    return std::find(members.begin(), members.end(), id) != members.end();
  }
  [[nodiscard]] bool is_learner(const ReplicaId& id) const {
    return std::any_of(learners.begin(), learners.end(), [&](const Learner& learner) { return learner.id == id; });
  }
  /// Whether `id` is a member or a learner.
  [[nodiscard]] bool mentions(const ReplicaId& id) const { return is_member(id) || is_learner(id); }
  [[nodiscard]] bool newer_than(const View& other) const {
    return epoch != other.epoch ? epoch > other.epoch : change > other.change;
  }

  friend bool operator==(const View&, const View&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_VIEW_H_
