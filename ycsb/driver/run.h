// One phase from start to report: driver threads, status lines, signals, export.
//
//   main thread                                driver threads
//     make them, wait until all are connected    open()        SIGINT, SIGTERM: ends the process
//     go ------------------------------------->  run()
//     every status.interval: ask, collect, print
//     SIGINT, SIGTERM: stop ----------------->   drain
//     all ended: report                          close()
#ifndef SKUA_YCSB_DRIVER_RUN_H_
#define SKUA_YCSB_DRIVER_RUN_H_

#include <array>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ycsb/bindings/binding.h"
#include "ycsb/core/core_workload.h"
#include "ycsb/core/measurements.h"
#include "ycsb/driver/driver_options.h"

namespace skua::ycsb {

/// What a phase gave.
struct RunResult {
  explicit RunResult(const MeasurementOptions& options) : measurements(options) {}

  Measurements measurements;
  DurationNs run_time = 0;
  int64_t start_epoch_ms = 0;
  uint64_t operations = 0;
  /// Of these, what failed, by outcome: see ClientThread::failures().
  std::array<uint64_t, kStatusCount> failures{};
  uint64_t late_starts = 0;
  bool interrupted = false;
  /// The first thread's that failed; what the others did is in the report all the same.
  absl::Status status;
  std::vector<std::string> first_failures;
};

/// Errors before the start (a session cannot be opened) are in the result's status, with no operations done. SIGINT and
/// SIGTERM must be blocked in the calling thread. Status lines go to `err`, and to `out` as well for
/// measurementtype=timeseries, as in Java. One of the two signals before all threads are connected ends the process
/// with kExitInterrupted: a store that does not answer holds them for as long as it likes.
[[nodiscard]] RunResult run_phase(const DriverOptions& options, const MeasurementOptions& measurement_options,
                                  CoreWorkload& workload, Binding& binding, std::ostream& out, std::ostream& err);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_RUN_H_
