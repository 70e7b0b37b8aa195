// MachineClock: the clocks of a machine that a worker needs besides its endpoint's clock. Simulations have machines of
// their own, whose clocks drift and are set.
#ifndef SKUA_KVSTORE_TYPES_MACHINE_CLOCK_H_
#define SKUA_KVSTORE_TYPES_MACHINE_CLOCK_H_

#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// Thread: any, for all methods.
class MachineClock {
 public:
  virtual ~MachineClock() = default;
  /// The time of day, by which keys expire: unix time in milliseconds. Operators may set this clock, also back.
  [[nodiscard]] virtual uint64_t unix_ms() const = 0;
  /// Time since the machine was started. This clock is never set. It goes on while the machine sleeps, because the
  /// promises between replicas do so too.
  [[nodiscard]] virtual TimeNs boot_ns() const = 0;

  /// The clocks of the machine that the program runs on. The object lives as long as the program.
  [[nodiscard]] static const MachineClock& system();
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_MACHINE_CLOCK_H_
