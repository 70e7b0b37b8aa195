// One driver thread's work: takes operations from the workload, keeps up to N of them in flight in
// its binding session, and records what came of them.
//
//   OperationSource -> free slot -> submit ... completion -> record -> free slot
//                                      |
//             READ of a read-modify-write: its UPDATE is submitted next, in the same slot, found or not (as in Java)
//             failed insert of the load phase: waits in its slot and is submitted again
//
// Pace: an operation starts when a slot is free and (with a target) its due time has come.
#ifndef SKUA_YCSB_DRIVER_CLIENT_THREAD_H_
#define SKUA_YCSB_DRIVER_CLIENT_THREAD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/tsc_clock.h"
#include "ycsb/bindings/binding.h"
#include "ycsb/core/core_workload.h"
#include "ycsb/driver/driver_options.h"
#include "ycsb/driver/measurement_handoff.h"
#include "ycsb/driver/pacer.h"

namespace skua::ycsb {

/// What all driver threads of a run share. Set up before they start; `stop` may be set at any time.
struct RunControl {
  std::atomic<bool> stop{false};
  TimeNs start = 0;
  TimeNs end = kTimeNever;  // maxexecutiontime
};

class ClientThread {
 public:
  /// The arguments outlive it. `index` counts from 0.
  ClientThread(const DriverOptions& options, const MeasurementOptions& measurements, CoreWorkload& workload,
               const RunControl& control, uint64_t index, Rng rng);
  ~ClientThread();

  /// Thread: the driver thread, all three, in this order. run() returns when everything is done,
  /// at the end time, on stop, or when the session is lost. close() measures CLEANUP; after open() it is called in any
  /// case, also if that failed or nothing is run.
  absl::Status open(Binding& binding);
  absl::Status run();
  void close();

  /// Operations ended so far, and those still to come (0 if without end). Thread: any.
  [[nodiscard]] uint64_t operations_done() const { return operations_done_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t operations_left() const;

  [[nodiscard]] MeasurementHandoff& measurements() { return measurements_; }

  /// After the thread has ended.
  [[nodiscard]] TimeNs ended() const { return ended_; }
  /// The first operation that failed, in words, or empty.
  [[nodiscard]] const std::string& first_failure() const { return first_failure_; }
  /// Operations that failed, by what they ended with. A read-modify-write is one operation, and fails if its read or
  /// its update does; so does a read whose data is not what dataintegrity=true expects.
  [[nodiscard]] const std::array<uint64_t, kStatusCount>& failures() const { return failures_; }
  /// Operations whose due time passed while every slot was taken.
  [[nodiscard]] uint64_t late_starts() const { return late_starts_; }

 private:
  struct Slot {
    ClientThread* owner = nullptr;
    Operation op;
    bool read_modify_write = false;
    Status outcome = Status::kOk;  // the first failure of its parts
    TimeNs due = 0;                // only with a schedule
    TimeNs started = 0;            // of what is in flight
    TimeNs first_started = 0;      // of the whole read-modify-write
    TimeNs retry_at = 0;
    uint64_t retries = 0;
  };

  static void on_complete(void* slot, const OpResult& result);
  void complete(Slot& slot, const OpResult& result);
  void complete_read(Slot& slot, const OpResult& result, TimeNs now);
  /// True if the insert is to be tried again.
  bool handle_load_failure(Slot& slot, const OpResult& result, TimeNs now);
  /// From when the intended latency of what began at `started` counts.
  [[nodiscard]] TimeNs intended_start(const Slot& slot, TimeNs started) const {
    return pacer_.paced() ? slot.due : started;
  }
  void finish(Slot& slot);
  void note_failure(Slot& slot, const OpResult& result);

  [[nodiscard]] bool may_start(TimeNs now) const;
  void start_operations(TimeNs now);
  void submit(Slot& slot);
  void resume_slots(TimeNs now);
  [[nodiscard]] TimeNs next_wake(TimeNs now) const;
  absl::Status wait(TimeNs now);

  const DriverOptions& options_;
  CoreWorkload& workload_;
  const RunControl& control_;
  const uint64_t index_;
  const uint64_t quota_;  // 0: without end
  const bool verify_;
  const TscClock clock_;
  OperationSource source_;
  Pacer pacer_ = Pacer::unpaced();
  MeasurementHandoff measurements_;
  std::unique_ptr<BindingSession> session_;

  std::unique_ptr<Slot[]> slots_;
  std::vector<Slot*> free_;
  std::vector<Slot*> continued_;  // read-modify-writes whose update is to be submitted
  std::vector<Slot*> retrying_;   // failed inserts waiting for their next try
  uint64_t started_ = 0;
  uint64_t in_flight_ = 0;  // submitted, not completed
  bool stopping_ = false;
  TimeNs last_full_ = INT64_MIN;  // when no slot was free
  absl::Status failure_;
  std::string first_failure_;
  std::array<uint64_t, kStatusCount> failures_{};
  uint64_t late_starts_ = 0;
  TimeNs ended_ = 0;
  alignas(64) std::atomic<uint64_t> operations_done_{0};
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_CLIENT_THREAD_H_
