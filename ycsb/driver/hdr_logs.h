// The HdrHistogram logs of a run: one file per series, named <hdrhistogram.output.path><series>.hdr.
#ifndef SKUA_YCSB_DRIVER_HDR_LOGS_H_
#define SKUA_YCSB_DRIVER_HDR_LOGS_H_

#include <fstream>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "rpc/base/clock.h"
#include "ycsb/core/measurements.h"

namespace skua::ycsb {

/// Whether the logs that `options` ask for can be written, found out by opening one of them. Leaves no file behind that
/// was not there. Errors: INVALID_ARGUMENT. To be asked before a run of hours.
[[nodiscard]] absl::Status check_hdr_logs(const MeasurementOptions& options);

class HdrLogs {
 public:
  /// `options` outlives it. Writes nothing unless they ask for it.
  explicit HdrLogs(const MeasurementOptions& options) : options_(options) {}

  /// Adds a line per series. Times since the start of the run.
  void write_interval(const Measurements& interval, int64_t start_epoch_ms, TimeNs from, TimeNs to);

  /// The first file that could not be written.
  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  const MeasurementOptions& options_;
  std::map<std::string, std::ofstream> files_;
  absl::Status status_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_HDR_LOGS_H_
