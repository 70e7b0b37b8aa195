// Whether the log's thread waits a moment before it writes the next group.
//
// Clients that write again as soon as they are answered fall into two halves that take turns. Each half comes back while the
// other one is being synced, so every write waits for two syncs and a group holds half of what it could:
//
//    disk   |--sync A--|--sync B--|--sync A--|--sync B--|      A and B: 16 of 32 clients each
//    A       ==========>  waits    ==========>
//
// After A was answered, A's writes are back a little later. A moment's wait for them makes the halves one:
//
//    disk   |--sync A--|.|--sync A+B--|.|--sync A+B--|         . the moment: it ends when as many are there as the last
//                                                                group held and as waited at its end
//
// The wait is bounded by a part of what a sync takes. It is worth it only if those who were answered do come back; if too
// few did for a few times in a row, nothing is waited for during many groups, then it is tried again, more and more rarely.
// So a load that does not answer to answers pays for a few waits in hundreds of groups. A lone writer is never waited for:
// its next record is all that there can be.
//
// No clock: time is an argument. Times are those of one thread.
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
    DurationNs wait_min = 10'000;     ///< shorter ones are not worth a sleep
    DurationNs wait_max = 2'000'000;  ///< also on a slow disk
    int64_t records_max = 1024;       ///< of a group
    uint32_t failures_max = 3;        ///< in a row; then it pauses
    uint32_t pause_groups = 64;       ///< the first pause; each further one is twice as long
    uint32_t pause_groups_max = 4096;
  };

  struct Wait {
    int64_t records;  ///< until as many are queued
    TimeNs until;     ///< or until then
  };

  explicit GatherPolicy(const Options& options) : options_(options) {}

  /// A group of `records` was synced in `sync_ns` and its writers were told at `now`; `waiting` others are queued.
  void synced(TimeNs now, DurationNs sync_ns, int64_t records, int64_t waiting);

  /// A group was written without a sync: there is nothing to share.
  void written() { target_ = 0; }

  /// `queued` records are there to be written, at least one. Asked once per group; who waits says how that ended.
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
