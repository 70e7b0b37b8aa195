// Which replica a read goes to, in tables that are read anywhere.
//
//    replicas with an open session and no pause      one of them, at random
//    none of them                                    the primary, which waits for its session
//    backups without a session                       are connected meanwhile, for later reads
//
// A backup that could not answer sends its reader to the primary (ClientCore::turn_to_primary). A replica that could not answer
// anything, or is silent, gets no read for a while: 10 ms, and twice as long each time, up to a second, until it answers one. A
// backup whose key has a write under way is not at fault.
//
// Pure; thread: one at a time.
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
  /// `is_open(target)`: it has a session.
  [[nodiscard]] TargetId choose(TargetId primary, std::span<const TargetId> backups, TimeNs now, Rng& rng,
                                absl::FunctionRef<bool(TargetId)> is_open) const;
  void failed(TargetId replica, TimeNs now);
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

  std::vector<Pause> pauses_;  // by target
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_READ_SPREAD_H_
