// Promises: those that this replica has given to others (lease.h): "while it lasts, I commit nothing in a view in which
// you are not a member any more".
//
//    given to 1   -----------------|          1 is still a member: its acknowledgement is needed anyway
//    given to 2   ---------|                  2 is no longer a member
//    former life  -------|                    before a restart promises may have been made that are not known any more
//    now          ==|
//                      wait ....... until here, or until 2 releases this replica from its promise
//
// Promises to members do not matter for commits: commits need their acknowledgements, and to acknowledge they must have
// left their older epoch. What others have promised to this replica stands with each of them (peer_replica.h).
//
// Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_PROMISES_H_
#define SKUA_KVSTORE_REPLICATION_PROMISES_H_

#include <map>

#include "kvstore/replication/view.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class PeerReplicas;

class Promises {
 public:
  /// Promises that are not known any more may last until then.
  void assume_until(TimeNs until) { former_life_until_ = until; }
  /// A promise to `to` lasts until then. A longer one stays.
  void give(NodeId to, TimeNs until);
  /// `holder` does not rely on its promise any more.
  void release(NodeId holder) { until_.erase(holder); }
  void drop_expired(TimeNs now);

  /// Whether a known promise lasts.
  [[nodiscard]] bool any(TimeNs now) const;
  /// When the last promise to a replica that is not a member ends: nothing may be committed before. 0: now.
  [[nodiscard]] TimeNs end_outside(const PeerReplicas& peers) const;

 private:
  std::map<NodeId, TimeNs> until_;
  TimeNs former_life_until_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_PROMISES_H_
