#include "ycsb/core/measurement_options.h"

#include <algorithm>

#include "ycsb/core/text.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

std::vector<double> parse_percentiles(PropertyReader& in, std::string_view name, std::string_view otherwise) {
  std::vector<double> out;
  const std::string list = in.text(name, otherwise);
  for (const std::string_view piece : split_text(list, ',')) {
    const auto percentile = parse_number<double>(trim_text(piece));
    if (!percentile || !(*percentile >= 0 && *percentile <= 100)) {
      in.fail(concat(name, "=", list, ": must be numbers from 0 to 100, separated by commas"));
      return out;
    }
    out.push_back(*percentile);
  }
  return out;
}

void parse_type(PropertyReader& in, MeasurementOptions& out) {
  switch (in.choice("measurementtype", "hdrhistogram",
                    {"hdrhistogram", "histogram", "hdrhistogram+histogram", "hdrhistogram+raw", "timeseries", "raw"})) {
    case 1:
      out.hdr = false;
      out.buckets = true;
      break;
    case 2: out.buckets = true; break;
    case 3: out.raw = true; break;
    case 4:
      out.hdr = false;
      out.time_series = true;
      break;
    case 5:
      out.hdr = false;
      out.raw = true;
      break;
    default: break;
  }
}

void parse_tracked_errors(PropertyReader& in, MeasurementOptions& out) {
  const std::string list = in.text("latencytrackederrors", "");
  if (list.empty()) return;
  for (const std::string_view piece : split_text(list, ',')) {
    const std::string_view name = trim_text(piece);
    const auto* const it = std::find(kStatusNames.begin(), kStatusNames.end(), name);
    if (it == kStatusNames.end()) {
      std::string known;
      for (const std::string_view status : kStatusNames) known += concat(known.empty() ? "" : ", ", status);
      in.fail(concat("latencytrackederrors=", list, ": there is no status ", name, "; there are ", known));
      return;
    }
    out.tracked_errors.at(static_cast<size_t>(it - kStatusNames.begin())) = true;
  }
}

}  // namespace

absl::StatusOr<MeasurementOptions> MeasurementOptions::parse(const Properties& properties, bool scheduled) {
  PropertyReader in(properties);
  MeasurementOptions out;
  parse_type(in, out);
  out.interval = static_cast<MeasurementInterval>(
      in.choice("measurement.interval", scheduled ? "both" : "op", {"op", "intended", "both"}));
  out.percentiles = parse_percentiles(in, "hdrhistogram.percentiles", "50,95,99");
  out.time_series_percentiles = parse_percentiles(in, "timeseries.percentiles", "95,99");
  out.verbose = in.flag("measurement.histogram.verbose", false);
  out.bucket_count = in.whole("histogram.buckets", 1000, 1, kHistogramBucketsMax);
  out.granularity_ms = in.whole("timeseries.granularity", 1000, 1, 3'600'000);
  out.raw_output_file = in.text("measurement.raw.output_file", "");
  out.raw_no_summary = in.flag("measurement.raw.no_summary", false);
  out.report_each_error = in.flag("reportlatencyforeacherror", false);
  parse_tracked_errors(in, out);
  out.hdr_file_output = in.flag("hdrhistogram.fileoutput", false);
  out.hdr_output_path = in.text("hdrhistogram.output.path", "");
  if (!in.status().ok()) return in.status();
  return out;
}

}  // namespace skua::ycsb
