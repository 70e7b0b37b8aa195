// MachineClock: the clocks of a machine that a worker needs besides its endpoint's clock. Simulations have machines of
// their own, whose clocks drift and are set.
#ifndef SKUA_KVSTORE_TYPES_MACHINE_CLOCK_H_
#define SKUA_KVSTORE_TYPES_MACHINE_CLOCK_H_

#include <atomic>
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

/// Clocks that move only when told to. For tests.
class ManualMachineClock final : public MachineClock {
 public:
  explicit ManualMachineClock(uint64_t unix_ms) : unix_ms_(unix_ms) {}

  [[nodiscard]] uint64_t unix_ms() const override { return unix_ms_; }
  [[nodiscard]] TimeNs boot_ns() const override { return boot_ns_; }
  void set_unix_ms(uint64_t unix_ms) { unix_ms_ = unix_ms; }
  void set_boot_ns(TimeNs boot_ns) { boot_ns_ = boot_ns; }

 private:
  std::atomic<uint64_t> unix_ms_;
  std::atomic<TimeNs> boot_ns_ = kSecond;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_MACHINE_CLOCK_H_
