// Waiting for something to become true, with a limit that only a hang reaches.
#ifndef SKUA_TESTS_CONTROL_WAIT_H_
#define SKUA_TESTS_CONTROL_WAIT_H_

#include <chrono>
#include <functional>
#include <thread>

#include "rpc/base/clock.h"

namespace skua::control {

inline constexpr DurationNs kGenerous = 60 * kSecond;

/// Asks every few milliseconds. False after kGenerous.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kGenerous);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_WAIT_H_
