// HostedLoop: an event loop that can share the thread of another one, its host.
//
//   thread:  host's work --> loop.turn() --> host's work --> loop.turn() --> ...
//                             |
//                             the loop's work, and one sleep for both
//
// Two loops that hand each other all their work are faster on one thread than on two. Neither has to wake the other's
// thread, and in each turn a loop finds together what the other one has done meanwhile. On two threads, Linux mostly
// keeps the two on one processor anyway, because each wakes the other.
#ifndef SKUA_RPC_BASE_HOSTED_LOOP_H_
#define SKUA_RPC_BASE_HOSTED_LOOP_H_

#include "rpc/base/clock.h"

namespace skua {

/// What the host needs when the loop sleeps for both. Thread: the host's.
class HostWait {
 public:
  virtual ~HostWait() = default;
  /// Readable between begin() and end() when the host has work. It stays the same, and belongs to the host.
  [[nodiscard]] virtual int fd() const = 0;
  /// How long the host may sleep from now on. 0: it has work already, and end() is not called.
  [[nodiscard]] virtual DurationNs begin() = 0;
  virtual void end() = 0;
};

/// Thread: that which called begin(), for begin() and turn().
class HostedLoop {
 public:
  virtual ~HostedLoop() = default;
  /// Call it once, before the first turn. `wait` outlives the loop's last turn. Null: the loop has the thread alone.
  virtual void begin(HostWait* wait) = 0;
  /// Does some of what there is to do, and sleeps if neither side has work. The host waits meanwhile: what takes longer
  /// than a few milliseconds goes on in the next turn, as far as it can be divided. False: the loop has ended, and has
  /// no further turns.
  [[nodiscard]] virtual bool turn() = 0;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_HOSTED_LOOP_H_
