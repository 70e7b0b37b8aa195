// Pause: a time in which the driver of a replica did not run. It neither sent nor received then, so silence and delay
// of that time do not count against the peers.
#ifndef SKUA_KVSTORE_REPLICATION_PAUSE_H_
#define SKUA_KVSTORE_REPLICATION_PAUSE_H_

#include <algorithm>

#include "rpc/base/clock.h"

namespace skua::kv {

struct Pause {
  TimeNs from = 0;
  TimeNs until = 0;

  /// A time of the past, moved so that the pause is not in the time since then. Times behind the pause stay.
  [[nodiscard]] TimeNs moved(TimeNs at) const { return at < until ? std::min(until, at + (until - from)) : at; }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_PAUSE_H_
