// Faults that come again and again, at random times, until everything heals.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_FAULT_SCHEDULE_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_FAULT_SCHEDULE_H_

#include <functional>
#include <utility>

#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

class FaultSchedule {
 public:
  explicit FaultSchedule(SimKernel& kernel) : kernel_(kernel) {}

  /// `period` on average; 0: never.
  void every(DurationNs period, std::function<void()> fault) {
    if (period == 0 || stopped_) return;
    kernel_.queue.at(kernel_.now() + kernel_.between(period / 4, period + period * 3 / 4),
                     [this, period, fault = std::move(fault)]() mutable {
                       if (stopped_) return;
                       fault();
                       every(period, std::move(fault));
                     });
  }
  void stop() { stopped_ = true; }

 private:
  SimKernel& kernel_;
  bool stopped_ = false;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_FAULT_SCHEDULE_H_
