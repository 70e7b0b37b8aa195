#include "ycsb/driver/driver_options.h"

#include "ycsb/core/text.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

/// Slots that an open loop may fill per thread before further arrivals wait.
constexpr uint64_t kOpenLoopInFlight = 256;
constexpr uint64_t kSecondsMax = 10 * 365 * 86'400ULL;

DurationNs seconds(PropertyReader& in, std::string_view name, uint64_t otherwise, uint64_t low) {
  return static_cast<DurationNs>(in.whole(name, otherwise, low, kSecondsMax, "seconds")) * kSecond;
}

void parse_count(PropertyReader& in, const Properties& properties, DriverOptions& out) {
  out.transactions = in.flag("dotransactions", true);
  if (out.transactions) {
    out.operation_count = in.whole("operationcount", 0, 0, kRecordsMax);
  } else {
    // A load without insertcount inserts recordcount records even if insertstart is set: as Java.
    const bool part = properties.has("insertcount");
    out.operation_count = in.whole(part ? "insertcount" : "recordcount", 0, 0, kRecordsMax);
    if (out.operation_count == 0 && !properties.has("maxexecutiontime")) {
      in.fail(concat(part ? "insertcount" : "recordcount",
                     ": a load needs to know how many records to insert; give -p ",
                     part ? "insertcount" : "recordcount", "=N", part ? "" : " or a workload file (-P)"));
    }
  }
}

void parse_pace(PropertyReader& in, DriverOptions& out) {
  out.threads = in.whole("threadcount", 1, 1, kThreadsMax);
  if (out.operation_count != 0 && out.threads > out.operation_count) out.threads = out.operation_count;
  out.target = in.real("target", 0, 0, 1e9);
  out.arrival = static_cast<Arrival>(in.choice("arrival", "closed", {"closed", "uniform", "poisson"}));
  if (out.arrival != Arrival::kClosed && out.target <= 0)
    in.fail("arrival=uniform or poisson needs the rate of arrivals: give -target operations/second");
  out.in_flight = in.whole("kv.inflight", out.arrival == Arrival::kClosed ? 1 : kOpenLoopInFlight, 1, kInFlightMax);
  out.execution_time_max = seconds(in, "maxexecutiontime", 0, 0);
  out.spin_sleep = in.flag("spin.sleep", false);
}

}  // namespace

absl::StatusOr<DriverOptions> DriverOptions::parse(const Properties& properties, uint64_t random_seed) {
  PropertyReader in(properties);
  DriverOptions out;
  parse_count(in, properties, out);
  parse_pace(in, out);
  out.status = in.flag("status", false);
  out.status_interval = seconds(in, "status.interval", 10, 1);
  out.label = in.text("label", "");
  out.exporter = in.text("exporter", "text");
  out.export_file = in.text("exportfile", "");
  out.seed = in.whole("seed", random_seed, 0, UINT64_MAX);
  out.insert_retries = in.whole("core_workload_insertion_retry_limit", 0, 0, 1'000'000);
  out.insert_retry_interval = seconds(in, "core_workload_insertion_retry_interval", 3, 0);
  out.keep_going_on_insert_error = in.flag("core_workload_insertion_keep_going_on_error", false);
  if (!in.status().ok()) return in.status();
  return out;
}

}  // namespace skua::ycsb
