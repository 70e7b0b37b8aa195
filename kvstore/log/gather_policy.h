// Decides whether the log's thread waits a moment before it writes the next group.
//
// Clients that write again as soon as they are answered divide into two halves. The writes of one half arrive while the
// other half's group is being synced. So every write waits for two syncs, and a group holds half of the clients'
// records:
//
//    disk   |--sync A--|--sync B--|--sync A--|--sync B--|      A and B: 16 of 32 clients each
//    A       ==========>  waits    ==========>
//
// A's next writes arrive shortly after A was answered. If the thread waits a moment for them, both halves share a
// group:
//
//    disk   |--sync A--|.|--sync A+B--|.|--sync A+B--|         . the wait: it ends when as many records are queued as
//                                                                the last group held, plus those queued at its end
//
// A wait lasts at most a part of a sync's time. It helps only if the answered clients do write again. If too few
// records arrived during several waits in a row, the policy pauses: it does not wait for many groups, then tries again.
// Each further pause is longer. So a load whose clients do not react to answers pays for a few waits in hundreds of
// groups. A lone writer is not waited for: when its record is queued, no other record can be expected.
//
// The policy has no clock: time is an argument. Thread: one at a time.
#ifndef SKUA_KVSTORE_LOG_GATHER_POLICY_H_
#define SKUA_KVSTORE_LOG_GATHER_POLICY_H_

#include <cstdint>
#include <optional>

#include "rpc/base/clock.h"

namespace skua::kv {

class GatherPolicy {
 public:
  struct Options {
    int64_t sync_part = 4;            ///< a wait lasts at most a sync's time divided by this
    DurationNs wait_min = 10'000;     ///< shorter waits are left out: they are not worth a sleep
    DurationNs wait_max = 2'000'000;  ///< the longest wait, also on a slow disk
    int64_t records_max = 1024;       ///< the most records of a group
    uint32_t failures_max = 3;        ///< after this many failed waits in a row the policy pauses
    uint32_t pause_groups = 64;       ///< length of the first pause in groups; each further pause is twice as long
    uint32_t pause_groups_max = 4096;
  };

  struct Wait {
    int64_t records;  ///< the wait ends when this many records are queued
    TimeNs until;     ///< the wait ends at this time at the latest
  };

  explicit GatherPolicy(const Options& options) : options_(options) {}

  /// A group of `records` records was synced in `sync_ns`, and its writers were answered at `now`. `waiting` other
  /// records are queued.
  void synced(TimeNs now, DurationNs sync_ns, int64_t records, int64_t waiting);

  /// A group was written without a sync: no wait before the next group, since there is no sync to share.
  void written() { target_ = 0; }

  /// Asked once per group, with `queued` >= 1 records to be written. nullopt: write now. A caller that waits calls
  /// waited() afterwards, with the number of records that are queued then.
  [[nodiscard]] std::optional<Wait> wait(TimeNs now, int64_t queued);
  void waited(int64_t queued);

 private:
  const Options options_;
  DurationNs sync_ns_ = 0;  // moving average
  TimeNs synced_at_ = 0;
  int64_t target_ = 0;  // 0: no wait before the next group
  int64_t queued_before_ = 0;
  uint32_t failures_ = 0;
  uint32_t paused_groups_ = 0;
  uint32_t next_pause_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_GATHER_POLICY_H_
