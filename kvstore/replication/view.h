// Who holds a shard: the view that the control plane decided, one after the other.
//
//    epoch 7 {A*, B, C}  --A dies-->  epoch 8 {B*, C}  --A learns, joins-->  epoch 9 {B*, C, A}        * primary
//
// A view is changed only by compare-and-swap in the metadata store, so there is one for each epoch. The primary of epoch
// v+1 is a member of epoch v; its members are members of v, or learners that had joined by then (replica.h).
#ifndef SKUA_KVSTORE_REPLICATION_VIEW_H_
#define SKUA_KVSTORE_REPLICATION_VIEW_H_

#include <cstdint>
#include <vector>

namespace skua::kv {

/// The first eight bytes of a node's UUID, which are random but for four bits. 0: none.
using NodeId = uint64_t;

/// A node as a holder of data: with another storage incarnation it may have lost what it had acknowledged.
struct ReplicaId {
  NodeId node = 0;
  uint64_t incarnation = 0;

  friend bool operator==(const ReplicaId&, const ReplicaId&) = default;
};

struct Learner {
  ReplicaId id;
  /// 0: follows only. Otherwise the number of the attempt to make it a member, never used twice: the primary commits
  /// nothing and serves no leased read without it.
  uint64_t join = 0;

  friend bool operator==(const Learner&, const Learner&) = default;
};

struct View {
  uint64_t epoch = 0;   ///< +1 for each change of primary or members; 0: no view
  uint64_t change = 0;  ///< +1 for each change of anything: orders the records of one epoch
  NodeId primary = 0;
  std::vector<ReplicaId> members;  ///< the primary among them; sorted by node
  std::vector<Learner> learners;   ///< sorted by node
  uint32_t min_insync = 1;         ///< with fewer members no write is taken
  uint64_t fork = 0;               ///< +1 when an operator gave writes up; known to nodes by the shard map only
  bool read_anywhere = false;      ///< members other than the primary serve linearizable reads too

  [[nodiscard]] bool is_member(const ReplicaId& id) const {
    for (const ReplicaId& member : members) {
      if (member == id) return true;
    }
    return false;
  }
  /// As a member or a learner.
  [[nodiscard]] bool mentions(const ReplicaId& id) const {
    const Learner* const known = learner(id.node);
    return is_member(id) || (known != nullptr && known->id == id);
  }
  [[nodiscard]] const Learner* learner(NodeId node) const {
    for (const Learner& learner : learners) {
      if (learner.id.node == node) return &learner;
    }
    return nullptr;
  }
  [[nodiscard]] bool newer_than(const View& other) const {
    return epoch != other.epoch ? epoch > other.epoch : change > other.change;
  }

  friend bool operator==(const View&, const View&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_VIEW_H_
