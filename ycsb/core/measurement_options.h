// How latencies are kept and reported, as properties say it.
#ifndef SKUA_YCSB_CORE_MEASUREMENT_OPTIONS_H_
#define SKUA_YCSB_CORE_MEASUREMENT_OPTIONS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ycsb/core/properties.h"
#include "ycsb/core/status.h"

namespace skua::ycsb {

/// Which of the two latencies of an operation are reported: from when it was sent (op), or from
/// when the schedule of -target or of the arrival process wanted it sent (intended).
enum class MeasurementInterval : uint8_t { kOp, kIntended, kBoth };

struct MeasurementOptions {
  // measurementtype: one of these, or hdr with buckets or raw.
  bool hdr = true;
  bool buckets = false;
  bool time_series = false;
  bool raw = false;

  MeasurementInterval interval = MeasurementInterval::kOp;
  std::vector<double> percentiles;                  // hdrhistogram.percentiles
  std::vector<double> time_series_percentiles;      // timeseries.percentiles
  bool verbose = false;                             // measurement.histogram.verbose
  uint64_t bucket_count = 1000;                     // histogram.buckets, of one millisecond each
  uint64_t granularity_ms = 1000;                   // timeseries.granularity
  std::string raw_output_file;                      // measurement.raw.output_file; empty: stdout
  bool raw_no_summary = false;                      // measurement.raw.no_summary
  bool report_each_error = false;                   // reportlatencyforeacherror
  std::array<bool, kStatusCount> tracked_errors{};  // latencytrackederrors
  bool hdr_file_output = false;                     // hdrhistogram.fileoutput
  std::string hdr_output_path;                      // hdrhistogram.output.path

  /// `scheduled`: operations have intended start times (a target is set), so that both latencies
  /// are reported unless measurement.interval says otherwise. Errors: INVALID_ARGUMENT.
  [[nodiscard]] static absl::StatusOr<MeasurementOptions> parse(const Properties& properties, bool scheduled);
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_MEASUREMENT_OPTIONS_H_
