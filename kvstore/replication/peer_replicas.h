// PeerReplicas: the other members of a view and its learners. Answers the questions that are about all of them: has
// everyone acknowledged an entry, promised, answered, or fallen silent?
//
// "Everyone" are the required ones (peer_replica.h). A primary goes on only with all of them, so that each can become
// the next primary. A group without required peers says yes to everything: its primary is alone.
//
// The peers are sorted by node, so that the same input gives the same messages in the same order. A view has few of
// them, so they are found by looking through all. Pointers to them are valid until match().
// Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_PEER_REPLICAS_H_
#define SKUA_KVSTORE_REPLICATION_PEER_REPLICAS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvstore/replication/commit_queue.h"
#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/pause.h"
#include "kvstore/replication/peer_replica.h"
#include "kvstore/replication/view.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class PeerReplicas {
 public:
  /// How match() treats a peer that it knows already.
  struct Match {
    bool keep = false;          ///< acknowledgements from before still count
    uint64_t commit_index = 0;  ///< what a learner whose attempt to join begins must have
    TimeNs now = 0;
    DurationNs first_word_ns = 0;  ///< extra time for a peer from which nothing is known
  };

  /// The peers are those of the view, without the node `self`.
  void match(const View& view, NodeId self, const Match& how);

  [[nodiscard]] auto begin() { return peers_.begin(); }
  [[nodiscard]] auto end() { return peers_.end(); }
  [[nodiscard]] auto begin() const { return peers_.begin(); }
  [[nodiscard]] auto end() const { return peers_.end(); }
  /// Null: the view does not have this node.
  [[nodiscard]] PeerReplica* find(NodeId node);
  [[nodiscard]] const PeerReplica* find(NodeId node) const;
  /// Null: the view does not have this replica. A node that lost its storage and came back under the same id must not
  /// pass as the member that had the data.
  [[nodiscard]] PeerReplica* find(const ReplicaId& id);

  /// How many required peers have not acknowledged the entry at its level.
  [[nodiscard]] size_t missing(const CommitQueue::Entry& entry) const;
  /// The node whose log alone lacks the entry at its level, if that node has received the entry. 0: there is no such
  /// node. `own` are the levels of the log of `self`. A replica that is alone is not compared with anybody.
  [[nodiscard]] NodeId only_one_behind(const CommitQueue::Entry& entry, NodeId self, const LogLevels& own) const;
  /// The lowest of `index` and the entries that a peer may still need.
  [[nodiscard]] uint64_t needed_from(uint64_t index) const;

  /// When the first promise to this replica ends; kTimeNever: nobody's promise is needed.
  [[nodiscard]] TimeNs promised_until() const;
  /// Whether all promises hold.
  [[nodiscard]] bool hold_promises(TimeNs now) const;
  void forget_promises();

  /// Whether all have answered this round of Confirm.
  [[nodiscard]] bool have_answered(uint64_t round) const;
  [[nodiscard]] bool is_anybody_joining() const;

  /// Whether two or more are waited for and all of them are silent. Then this replica itself is probably cut off.
  [[nodiscard]] bool all_are_silent(TimeNs now, DurationNs patience) const;
  /// The lowest latency of the members other than `node`. kTimeNever: there are none.
  [[nodiscard]] DurationNs fastest_without(NodeId node, TimeNs now) const;
  void paused(const Pause& pause);

 private:
  void enter(const PeerReplica& peer);

  std::vector<PeerReplica> peers_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_PEER_REPLICAS_H_
