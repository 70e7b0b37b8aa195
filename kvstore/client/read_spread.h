// ReadSpread: chooses the replica that a read goes to, for tables with read_anywhere.
//
//    replicas with an open session and no pause      one of them, at random
//    none of them                                    the primary, which waits for its session
//    backups without a session                       are connected meanwhile, for later reads
//
// If a backup could not answer a read, the read goes on to the primary (OperationRunner::turn_to_primary). A replica
// that cannot answer reads, or is silent, gets a pause in which it gets no reads: 10 ms, and twice as long with each
// further failure, up to a second. The failures are forgotten when the replica answers a read. A backup that refused a
// read only because the key has a write under way gets no pause.
//
// Pure. Thread: one at a time.
#ifndef SKUA_KVSTORE_CLIENT_READ_SPREAD_H_
#define SKUA_KVSTORE_CLIENT_READ_SPREAD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kvstore/client/route_table.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::kv {

class ReadSpread {
 public:
  /// The replica to read from. `primary` may be kNoTarget. `is_open(target)` says whether the target has an open
  /// session.
  [[nodiscard]] TargetId choose(TargetId primary, std::span<const TargetId> backups, TimeNs now, Rng& rng,
                                absl::FunctionRef<bool(TargetId)> is_open) const;
  /// The replica could not answer a read, or was silent: it gets a pause.
  void failed(TargetId replica, TimeNs now);
  /// The replica answered a read: ends its pause, and forgets its failures.
  void answered(TargetId replica) {
    if (replica < pauses_.size()) [[unlikely]] {
      pauses_[replica] = {};
    }
  }

 private:
  struct Pause {
    TimeNs until_ns = 0;
    uint32_t failures = 0;
  };
  [[nodiscard]] bool pauses(TargetId target, TimeNs now) const {
    return target < pauses_.size() && now < pauses_[target].until_ns;
  }

  std::vector<Pause> pauses_;  // indexed by TargetId
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_READ_SPREAD_H_
