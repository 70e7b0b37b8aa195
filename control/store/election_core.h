// What a process does to lead while it can, and to know that it does not: the election without the calls.
//
//              granted                     campaigned(ours)
//   no lease ───────────> has a lease ───────────────────────> leads
//      ^                   │   ^  ^                             │
//      │ lease_gone        │   │  └── campaigned(another's) <───┤
//      └───────────────────┘   │                                │
//                              └───── the lease may be over <───┘   no renewal for a lease's time
//
// Whoever has the lease that the leader key hangs on leads. Each period the lease is renewed and the key is looked at;
// if there is none, the same transaction puts ours. The lease is counted from when a renewal was *sent*, so that this
// process stops believing that it leads before the store lets go of its key. A lease that may be over is renewed all
// the same: after a pause it may still be there, with the key.
//
// This decides who acts, not what is right: the store's condition on the leader key (EtcdStore::require_leader) keeps a
// late write of a deposed leader out.
#ifndef SKUA_CONTROL_STORE_ELECTION_CORE_H_
#define SKUA_CONTROL_STORE_ELECTION_CORE_H_

#include <cstdint>
#include <string>

#include "control/store/election.h"
#include "rpc/base/clock.h"

namespace skua::control {

struct ElectionOptions {
  /// How long the lead outlives the leader. Whole seconds; etcd makes them at least 2. Long enough for etcd to elect a
  /// leader of its own.
  DurationNs lease_ns = 3 * kSecond;
  /// Several fit into a lease.
  DurationNs period_ns = 500 * kMillisecond;
};

class ElectionCore {
 public:
  enum class Action { kWait, kGrantLease, kRenewLease, kCampaign };
  struct Step {
    Action action = Action::kWait;
    /// For kWait: ask again at this time, or earlier.
    TimeNs until = 0;
  };

  explicit ElectionCore(ElectionOptions options) : options_(options) {}

  /// What is to be done now. Each action is followed by the call below that tells how it went.
  [[nodiscard]] Step next(TimeNs now);

  void granted(int64_t lease, TimeNs sent);
  void renewed(TimeNs sent);
  /// The store has no such lease any more, and no key of ours.
  void lease_gone();
  /// The leader key as it is now: its lease, its create revision and who put it. `lease` 0: there is none.
  void campaigned(int64_t lease, uint64_t term, const std::string& leader, TimeNs now);
  /// An action did not work.
  void failed(const std::string& why, TimeNs now);

  [[nodiscard]] Leadership leadership(TimeNs now) const;
  /// 0: none.
  [[nodiscard]] int64_t lease() const { return lease_; }

 private:
  const ElectionOptions options_;
  int64_t lease_ = 0;
  /// The lease lives at least so long.
  TimeNs lease_until_ = 0;
  TimeNs renew_at_ = 0;
  TimeNs campaign_at_ = 0;
  /// After a failure: nothing before this.
  TimeNs not_before_ = 0;
  /// The term that was won on this lease; 0 when it must be looked at again.
  uint64_t won_term_ = 0;
  Leadership seen_;
  /// What was seen of others holds until then.
  TimeNs seen_until_ = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ELECTION_CORE_H_
