// How a driver thread's measurements reach the status thread without a lock on the hot path.
//
//   driver thread                state          main thread
//                                kIdle  ------> ask(): there is an empty spare
//   serve(): swap active, spare  kAsked
//                                kGiven ------> collect(): read the full spare, clear it
//                                kIdle
//
// The driver thread looks at one atomic per round of its loop; recording itself touches nothing
// shared.
#ifndef SKUA_YCSB_DRIVER_MEASUREMENT_HANDOFF_H_
#define SKUA_YCSB_DRIVER_MEASUREMENT_HANDOFF_H_

#include <atomic>
#include <memory>
#include <utility>

#include "ycsb/core/measurements.h"

namespace skua::ycsb {

class MeasurementHandoff {
 public:
  /// `options` outlives it.
  explicit MeasurementHandoff(const MeasurementOptions& options)
      : active_(std::make_unique<Measurements>(options)), spare_(std::make_unique<Measurements>(options)) {}

  /// What to record into now. Thread: the driver thread, until it ends; then the main thread.
  [[nodiscard]] Measurements& active() { return *active_; }

  /// Gives away what has been recorded if the main thread has asked. Thread: the driver thread.
  void serve() {
    if (state_.load(std::memory_order_acquire) != State::kAsked) [[likely]]
      return;
    std::swap(active_, spare_);
    state_.store(State::kGiven, std::memory_order_release);
  }

  /// Thread: the main thread.
  void ask() {
    State idle = State::kIdle;
    state_.compare_exchange_strong(idle, State::kAsked, std::memory_order_release);
  }
  /// Hands what was given to `take(const Measurements&)`; false if nothing has been given yet.
  /// Thread: the main thread.
  template <typename Take>
  bool collect(Take&& take) {
    if (state_.load(std::memory_order_acquire) != State::kGiven) return false;
    take(std::as_const(*spare_));
    spare_->clear();
    state_.store(State::kIdle, std::memory_order_release);
    return true;
  }

 private:
  enum class State : int { kIdle, kAsked, kGiven };

  std::unique_ptr<Measurements> active_;
  std::unique_ptr<Measurements> spare_;
  std::atomic<State> state_{State::kIdle};
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_MEASUREMENT_HANDOFF_H_
