#include "ycsb/core/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "ycsb/core/java_format.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

double whole_ms(DurationNs duration) {
  const int64_t ms = duration / kMillisecond;
  return static_cast<double>(ms);
}

void export_returns(Exporter& exporter, std::string_view name, const Series& series) {
  for (size_t i = 0; i < kStatusCount; ++i) {
    const uint64_t count = series.returns().at(i);
    if (count != 0) exporter.write(name, concat("Return=", kStatusNames.at(i)), count);
  }
}

void export_percentiles(Exporter& exporter, std::string_view name, const Histogram& latencies,
                        const std::vector<double>& percentiles) {
  for (const double percentile : percentiles) {
    exporter.write(name, java_ordinal(percentile) + "PercentileLatency(us)", latencies.percentile(percentile));
  }
}

void export_basics(Exporter& exporter, std::string_view name, const Histogram& latencies) {
  exporter.write(name, "Operations", latencies.count());
  exporter.write(name, "AverageLatency(us)", latencies.mean());
  exporter.write(name, "MinLatency(us)", latencies.min());
  exporter.write(name, "MaxLatency(us)", latencies.max());
}

void export_hdr(Exporter& exporter, std::string_view name, const Series& series, const MeasurementOptions& options) {
  export_basics(exporter, name, series.latencies());
  export_percentiles(exporter, name, series.latencies(), options.percentiles);
  export_returns(exporter, name, series);
  if (!options.verbose) return;
  series.latencies().for_each_bucket([&](uint64_t /*low*/, uint64_t high, uint64_t count) {
    exporter.write(name, std::to_string(high), static_cast<double>(count));
  });
}

void export_buckets(Exporter& exporter, std::string_view name, const Series& series,
                    const MeasurementOptions& options) {
  const Histogram& latencies = series.latencies();
  exporter.write(name, "Operations", latencies.count());
  exporter.write(name, "AverageLatency(us)", latencies.mean());
  exporter.write(name, "LatencyVariance(us)", latencies.stddev() * latencies.stddev());
  exporter.write(name, "MinLatency(us)", latencies.min());
  exporter.write(name, "MaxLatency(us)", latencies.max());
  const size_t bucket_count = series.buckets().size() - 1;
  constexpr std::array<std::pair<double, std::string_view>, 2> kLimits = {
      {{0.95, "95thPercentileLatency(us)"}, {0.99, "99thPercentileLatency(us)"}}};
  for (const auto& [share, label] : kLimits) {
    uint64_t seen = 0;
    for (size_t i = 0; i < bucket_count; ++i) {
      seen += series.buckets()[i];
      if (static_cast<double>(seen) < share * static_cast<double>(latencies.count())) continue;
      exporter.write(name, label, uint64_t{i} * 1000);
      break;
    }
  }
  // With hdrhistogram+histogram the return codes stand under the other name.
  if (!options.hdr) export_returns(exporter, name, series);
  if (!options.verbose) return;
  for (size_t i = 0; i < bucket_count; ++i) exporter.write(name, std::to_string(i), series.buckets()[i]);
  exporter.write(name, concat(">", bucket_count), series.buckets().back());
}

void export_time_series(Exporter& exporter, std::string_view name, const Series& series,
                        const MeasurementOptions& options) {
  export_basics(exporter, name, series.latencies());
  export_percentiles(exporter, name, series.latencies(), options.time_series_percentiles);
  export_returns(exporter, name, series);
  for (size_t i = 0; i < series.time_units().size(); ++i) {
    const Series::TimeUnit& unit = series.time_units()[i];
    if (unit.count == 0) continue;
    exporter.write(name, std::to_string(i * options.granularity_ms),
                   static_cast<double>(unit.sum_us) / static_cast<double>(unit.count));
  }
}

void export_raw(Exporter& exporter, std::string_view name, const Series& series, const MeasurementOptions& options) {
  std::vector<uint64_t> latencies;
  latencies.reserve(series.raw_points().size());
  for (const Series::RawPoint& point : series.raw_points()) latencies.push_back(point.latency_us);
  std::sort(latencies.begin(), latencies.end());
  exporter.write(name, "Total Operations", series.latencies().count());
  if (!latencies.empty() && !options.raw_no_summary) {
    exporter.write(name, "Average", series.latencies().mean());
    exporter.write(name, "Min", latencies.front());
    exporter.write(name, "Max", latencies.back());
    constexpr std::array<std::pair<double, std::string_view>, 8> kPoints = {{{0.01, "p1"},
                                                                             {0.05, "p5"},
                                                                             {0.5, "p50"},
                                                                             {0.9, "p90"},
                                                                             {0.95, "p95"},
                                                                             {0.99, "p99"},
                                                                             {0.999, "p99.9"},
                                                                             {0.9999, "p99.99"}}};
    for (const auto& [share, label] : kPoints) {
      const auto at = static_cast<size_t>(static_cast<double>(latencies.size()) * share);
      exporter.write(name, label, latencies[at]);
    }
  }
  if (latencies.size() < series.latencies().count())
    exporter.write(name, "Points not kept", series.latencies().count() - latencies.size());
  if (!options.hdr) export_returns(exporter, name, series);
}

std::string hdr_summary(const std::string& name, const Histogram& interval) {
  std::string text = concat("[", name, ": Count=", interval.count(), ", Max=", interval.max(), ", Min=", interval.min(),
                            ", Avg=", java_two_decimals(interval.mean()));
  constexpr std::array<std::pair<double, std::string_view>, 5> kPercentiles = {
      {{50, "50"}, {90, "90"}, {99, "99"}, {99.9, "99.9"}, {99.99, "99.99"}}};
  for (const auto& [percentile, label] : kPercentiles)
    text += concat(", ", label, "=", interval.percentile(percentile));
  return text + "]";
}

std::string average_summary(const std::string& name, const Histogram& interval) {
  if (interval.count() == 0) return "";
  return concat("[", name, " AverageLatency(us)=", java_two_decimals(interval.mean()), "]");
}

std::string raw_summary(const std::string& name, const Histogram& interval) {
  if (interval.count() == 0) return "";
  std::array<char, 64> average;
  std::snprintf(average.data(), average.size(), "%.2f", interval.mean());
  return concat(name, " count: ", interval.count(), ", average latency(us): ", average.data());
}

}  // namespace

void export_overall(Exporter& exporter, DurationNs run_time, uint64_t operations) {
  const double run_time_ms = static_cast<double>(run_time) / kMillisecond;
  exporter.write("OVERALL", "RunTime(ms)", static_cast<uint64_t>(run_time / kMillisecond));
  exporter.write("OVERALL", "Throughput(ops/sec)",
                 operations == 0 ? 0 : 1000.0 * static_cast<double>(operations) / run_time_ms);
  exporter.write("TOTAL_GCs", "Count", uint64_t{0});
  exporter.write("TOTAL_GC_TIME", "Time(ms)", uint64_t{0});
  exporter.write("TOTAL_GC_TIME_%", "Time(%)", 0.0);
}

void export_measurements(Exporter& exporter, const Measurements& measurements) {
  const MeasurementOptions& options = measurements.options();
  const bool paired = options.hdr && (options.buckets || options.raw);
  measurements.for_each([&](const std::string& name, const Series& series) {
    if (options.hdr) export_hdr(exporter, paired ? "Hdr" + name : name, series, options);
    if (options.buckets) export_buckets(exporter, paired ? "Bucket" + name : name, series, options);
    if (options.raw) export_raw(exporter, paired ? "Raw" + name : name, series, options);
    if (options.time_series) export_time_series(exporter, name, series, options);
  });
}

void write_raw_points(std::ostream& out, const Measurements& measurements, int64_t start_epoch_ms) {
  if (!measurements.options().raw) return;
  const std::string_view prefix = measurements.options().hdr ? "Raw" : "";
  measurements.for_each([&](const std::string& name, const Series& series) {
    out << prefix << name << " latency raw data: op, timestamp(ms), latency(us)\n";
    for (const Series::RawPoint& point : series.raw_points()) {
      out << prefix << name << ',' << std::to_string(start_epoch_ms + point.since_start / kMillisecond) << ','
          << std::to_string(point.latency_us) << '\n';
    }
  });
}

std::string summary(const Measurements& interval) {
  const MeasurementOptions& options = interval.options();
  std::string text;
  interval.for_each([&](const std::string& name, const Series& series) {
    const Histogram& latencies = series.latencies();
    const bool paired = options.hdr && (options.buckets || options.raw);
    if (options.hdr) text += hdr_summary(paired ? "Hdr" + name : name, latencies);
    if (paired) text += "\n";
    if (options.buckets) text += average_summary(paired ? "Bucket" + name : name, latencies);
    if (options.raw) text += raw_summary(paired ? "Raw" + name : name, latencies);
    if (options.time_series) text += average_summary(name, latencies);
    text += " ";
  });
  return text;
}

std::string status_line(const Progress& progress, std::string_view summary) {
  // In whole milliseconds, as Java counts: at the very start 0 / 0 gives "0 second".
  const double ms = whole_ms(progress.since_start);
  const double interval_ms = whole_ms(progress.interval);
  std::string line = concat(progress.label, progress.wall_time, " ", progress.since_start / kSecond,
                            " sec: ", progress.operations, " operations; ");
  if (progress.operations != 0) {
    const double rate = 1000.0 * static_cast<double>(progress.interval_operations) / interval_ms;
    line += java_two_decimals(rate) + " current ops/sec; ";
  }
  if (progress.operations_left != 0) {
    const double rate = 1000.0 * static_cast<double>(progress.operations) / ms;
    line += "est completion in " + java_remaining_time(std::ceil(static_cast<double>(progress.operations_left) / rate));
  }
  return line.append(summary);
}

}  // namespace skua::ycsb
