#include "kvstore/types/machine_clock.h"

#include <ctime>

namespace skua::kv {
namespace {

class SystemClock final : public MachineClock {
 public:
  [[nodiscard]] uint64_t unix_ms() const override {
    return static_cast<uint64_t>(nanoseconds_of(CLOCK_REALTIME) / kMillisecond);
  }
  [[nodiscard]] TimeNs boot_ns() const override { return nanoseconds_of(CLOCK_BOOTTIME); }

 private:
  [[nodiscard]] static TimeNs nanoseconds_of(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<TimeNs>(now.tv_sec) * kSecond + now.tv_nsec;
  }
};

}  // namespace

const MachineClock& MachineClock::system() {
  static const SystemClock clock;
  return clock;
}

}  // namespace skua::kv
