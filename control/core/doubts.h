// Doubts: which members may lack writes that they acknowledged. Soft state, which is learnt anew after a restart.
//
// A write of durability `flush` is acknowledged when every member has written it; it is synced a little later. A member
// whose machine loses power in between may come back without the write, and cannot know. Its replica is doubtful until
// a primary that has everything says that the replica has caught up. Until then the replica follows and acknowledges as
// others do. It reports its doubt, and where its log ends, again and again (Doubt in events.h).
//
//   who is doubtful                     what happens to the shard
//   --------------------------------    ------------------------------------------------------------------
//   a backup                            It goes on. The backup is not chosen to lead, and no other backup is removed
//                                       because of its accusation alone
//   the primary                         Another member leads at once. That member has everything, since nothing was
//                                       committed without it
//   the primary, and all others that    It waits, and its members stay: a member that is away may have writes that
//   are alive                           the others lack
//   all members, and all are there      It goes on with the longest log, as after a recovery by force (a new fork).
//                                       All members lost power, so nobody has more. At most the last moments of
//                                       `flush` writes are lost, as `flush` allows; synced writes are in every log
//
// A doubt counts while it is repeated. It is forgotten when its node is heard of without the doubt for longer than
// ViewOptions::accusation_ttl_ns. For "all members" this is not enough: after its last report a member may have caught
// up with a primary that lost power later. So each member must have repeated its doubt since the last of the doubts
// began.
//
// A fork ends all earlier doubts about the shard. Messages with such doubts may still arrive, and are ignored. A
// control process that did not see the fork cannot recognize them, so the primary's doubt must have the record's epoch.
#ifndef SKUA_CONTROL_CORE_DOUBTS_H_
#define SKUA_CONTROL_CORE_DOUBTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "control/core/events.h"

namespace skua::control {

struct ViewContext;

class Doubts {
 public:
  /// Notes a doubt. `sender` must be the registered process of its node. Ignores the doubt unless the node is a member
  /// of the shard with its present storage, and if it names an epoch above the record's: there has been none. The
  /// doubt's epoch may be older than the record's, because a replica that follows nobody yet may not have adopted the
  /// view. True if the doubt is news on which plans depend.
  bool note(const ViewContext& context, const std::string& sender, const Doubt& doubt);
  /// A node is alive again: it gets time to repeat its doubts.
  void note_return(const std::string& uuid, TimeNs now);
  /// Forgets doubts that are no longer repeated, and doubts of nodes that are no longer members.
  void prune(const ViewContext& context);

  /// Whether the node is doubtful about the shard.
  [[nodiscard]] bool contains(const ViewContext& context, const ShardRecord& record, const std::string& uuid) const;

  /// The member with the longest log, if all members of the shard are alive, have their storage and are doubtful, and
  /// the primary is so in the record's epoch.
  [[nodiscard]] std::optional<std::string> longest_of_all(const ViewContext& context, const ShardRecord& record) const;

 private:
  struct Said {
    TimeNs first = 0;
    TimeNs last = 0;
    TimeNs expected = 0;   // since then a repetition is due: `last`, or the time when the node came back
    uint64_t process = 0;  // the node's incarnation: a later process's doubt is another doubt
    uint64_t epoch = 0;    // the epoch that the replica knew
    uint64_t last_epoch = 0;
    uint64_t last_index = 0;
  };
  struct OfShard {
    /// The record's fork when the doubts began. A later fork ends them.
    uint64_t fork = 0;
    /// Doubts of older epochs do not count; 0: this process has seen no fork.
    uint64_t fork_epoch = 0;
    TimeNs forked_at = 0;
    std::map<std::string, Said> nodes;
  };

  /// Forgets the doubts from before a fork.
  static void match_fork(const ViewContext& context, const ShardRecord& record, OfShard& of_shard);
  /// The node has been heard of for too long without a repetition of the doubt.
  [[nodiscard]] static bool is_over(const ViewContext& context, const std::string& uuid, const Said& said);
  [[nodiscard]] const Said* find(const ViewContext& context, const ShardRecord& record, const std::string& uuid) const;

  std::map<ShardKey, OfShard> shards_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_DOUBTS_H_
