// Which members may lack writes that they acknowledged: soft state, learnt anew after a restart.
//
// A write of durability `flush` is acknowledged when every member has written it, and synced a little later. A
// member whose machine loses power in between may come back without it, and cannot know: its replica is doubtful
// until a primary that has everything has told it that it has caught up. Until then it follows and acknowledges
// as others do, and says with each heartbeat that it doubts, and how far its log goes (Doubt in events.h).
//
//   who is doubtful                     the shard
//   --------------------------------    ------------------------------------------------------------------
//   a backup                            goes on. It is not chosen to lead, and its word removes no other backup
//   the primary                         another member leads, at once. That one has everything: nothing was
//                                       committed without it
//   the primary, and all others that    waits, with its members as they are: whoever is away may have what
//   are alive                           the others lack
//   all members, and all are there      goes on with the longest log, as a recovery by force does (a new fork): all
//                                       lost power, and so nobody has more. At most the last moments of `flush`
//                                       are lost, which is what `flush` promises; what was synced is in every log
//
// A doubt counts while it is repeated: it is forgotten when its node is heard of without it for longer than
// ViewOptions::accusation_ttl_ns. For "all members" that is not enough, because one may have caught up since it last
// said so, with a primary that lost power after that: each must have repeated its doubt since the last one began.
//
// A fork answers all doubts about the shard from before it; they may still be on their way, and are ignored. A control
// process that has not seen the fork happen cannot tell them, so the primary's doubt must be of the record's epoch.
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
  /// `sender` must be the registered process of its node. Ignores what is not about a shard that it is a member of with
  /// the storage that it has. The epoch may be an older one than the record's: who follows nobody yet may not have
  /// adopted it. True if plans depend on the difference.
  bool note(const ViewContext& context, const std::string& sender, const Doubt& doubt);
  /// A node is alive again, and gets time to repeat its doubts.
  void note_return(const std::string& uuid, TimeNs now);
  /// Forgets what is no more repeated, and who is a member no more.
  void prune(const ViewContext& context);

  /// Does this node doubt what it has of the shard?
  [[nodiscard]] bool contains(const ViewContext& context, const ShardAssignment& record, const std::string& uuid) const;

  /// The member whose log goes furthest, if every member of the shard is alive, has its storage, and doubts; the primary
  /// in the record's epoch.
  [[nodiscard]] std::optional<std::string> longest_of_all(const ViewContext& context,
                                                          const ShardAssignment& record) const;

 private:
  struct Said {
    TimeNs first = 0;
    TimeNs last = 0;
    TimeNs expected = 0;   // from here on it must be repeated: `last`, or a return
    uint64_t process = 0;  // a later one may doubt for another reason
    uint64_t epoch = 0;    // that it knew
    uint64_t last_epoch = 0;
    uint64_t last_index = 0;
  };
  struct OfShard {
    /// The record's when the doubts began. Another one has answered them.
    uint64_t fork = 0;
    /// No doubts that are older count; 0 before a fork was seen.
    uint64_t fork_epoch = 0;
    TimeNs forked_at = 0;
    std::map<std::string, Said> nodes;
  };

  /// Ends the doubts that a fork has answered.
  static void match_fork(const ViewContext& context, const ShardAssignment& record, OfShard& of_shard);
  /// The node was heard of for too long without it.
  [[nodiscard]] static bool is_over(const ViewContext& context, const std::string& uuid, const Said& said);
  [[nodiscard]] const Said* find(const ViewContext& context, const ShardAssignment& record,
                                 const std::string& uuid) const;

  std::map<ShardKey, OfShard> shards_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_DOUBTS_H_
