// The lines that YCSB prints about measurements: the report at the end and the status line while
// running, each in Java's wording.
#ifndef SKUA_YCSB_CORE_REPORT_H_
#define SKUA_YCSB_CORE_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "rpc/base/clock.h"
#include "ycsb/core/exporter.h"
#include "ycsb/core/measurements.h"

namespace skua::ycsb {

/// [OVERALL] lines, and the garbage collector's lines (always zero: some scripts look for them).
void export_overall(Exporter& exporter, DurationNs run_time, uint64_t operations);

/// One series after another, as measurementtype asks.
void export_measurements(Exporter& exporter, const Measurements& measurements);

/// measurementtype with raw: a heading and `name,milliseconds since the epoch,latency` per point.
void write_raw_points(std::ostream& out, const Measurements& measurements, int64_t start_epoch_ms);

/// "[READ: Count=..., Max=..., ...] [UPDATE: ...] ": what an interval's measurements add to the
/// status line.
[[nodiscard]] std::string summary(const Measurements& interval);

/// What the status line says besides the summary.
struct Progress {
  std::string label;      // property `label`
  std::string wall_time;  // yyyy-MM-dd HH:mm:ss:SSS
  DurationNs since_start = 0;
  DurationNs interval = 0;  // since the last status line
  uint64_t operations = 0;  // done so far
  uint64_t interval_operations = 0;
  uint64_t operations_left = 0;  // 0: done, or without end
};

/// Without a line break.
[[nodiscard]] std::string status_line(const Progress& progress, std::string_view summary);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_REPORT_H_
