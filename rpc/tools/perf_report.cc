#include "rpc/tools/perf_report.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace skua::rpc::perf {
namespace {

double microseconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

double gigabits_per_second(uint64_t bytes_per_call, const TestResult& result) {
  return static_cast<double>(bytes_per_call) * result.calls_per_second() * 8 / 1e9;
}

}  // namespace

std::string text_report(const std::string& mode, const TestOptions& options, const TestResult& result) {
  const Histogram& h = result.latency_ns;
  std::string out = absl::StrFormat("%s over %s: request %u B, response %u B, %u outstanding, %s polling, %.1f s\n",
                                    mode, options.transport.name, options.request_bytes, options.response_bytes,
                                    options.outstanding, options.busy ? "busy" : "adaptive", result.seconds());
  if (options.endpoints > 1) absl::StrAppendFormat(&out, "  endpoints    %u, each of them so\n", options.endpoints);
  absl::StrAppendFormat(&out, "  calls        %u (%.0f per second), %u failed\n", result.calls,
                        result.calls_per_second(), result.failed);
  absl::StrAppendFormat(&out, "  goodput      %.3f Gbit/s requests, %.3f Gbit/s responses\n",
                        gigabits_per_second(options.request_bytes, result),
                        gigabits_per_second(options.response_bytes, result));
  absl::StrAppendFormat(&out, "  round trip   min %.2f  p50 %.2f  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f us\n",
                        microseconds(h.min()), microseconds(h.percentile(50)), microseconds(h.percentile(90)),
                        microseconds(h.percentile(99)), microseconds(h.percentile(99.9)), microseconds(h.max()));
  if (const Histogram& idle = result.after_idle_ns; idle.count() > 0) {
    absl::StrAppendFormat(&out, "  after a pause of %.3f s   p50 %.2f  max %.2f us, of %u\n",
                          static_cast<double>(options.idle_ns) / 1e9, microseconds(idle.percentile(50)),
                          microseconds(idle.max()), idle.count());
  }
  absl::StrAppendFormat(&out, "  tx bytes     %u in place, %u copied;  rx bytes %u in place, %u copied\n",
                        result.transport.tx_zero_copy_bytes, result.transport.tx_copied_bytes,
                        result.engine.rx_zero_copy_bytes,
                        result.engine.rx_copied_bytes + result.transport.rx_copied_bytes);
  absl::StrAppendFormat(&out, "  retransmits  %u\n", result.engine.retransmits);
  if (result.failed > 0) {
    absl::StrAppend(&out, "  first failure: ", std::string(result.first_failure.ToString()), "\n");
  }
  return out;
}

std::string json_report(const std::string& mode, const TestOptions& options, const TestResult& result) {
  const Histogram& h = result.latency_ns;
  const nlohmann::json out = {
      {"mode", mode},
      {"transport", options.transport.name},
      {"injected_loss", options.transport.loss},
      {"request_bytes", options.request_bytes},
      {"response_bytes", options.response_bytes},
      {"outstanding", options.outstanding},
      {"polling", options.busy ? "busy" : "adaptive"},
      {"cpus", std::thread::hardware_concurrency()},
      {"elapsed_s", result.seconds()},
      {"calls", result.calls},
      {"failed", result.failed},
      {"calls_per_second", result.calls_per_second()},
      {"request_gbit_per_s", gigabits_per_second(options.request_bytes, result)},
      {"response_gbit_per_s", gigabits_per_second(options.response_bytes, result)},
      {"round_trip_us",
       {{"min", microseconds(h.min())},
        {"mean", h.mean() / 1e3},
        {"p50", microseconds(h.percentile(50))},
        {"p90", microseconds(h.percentile(90))},
        {"p99", microseconds(h.percentile(99))},
        {"p99_9", microseconds(h.percentile(99.9))},
        {"max", microseconds(h.max())}}},
      {"endpoints", options.endpoints},
      {"sessions", options.sessions},
      {"active_sessions", options.active_sessions},
      {"after_idle_us",
       {{"count", result.after_idle_ns.count()},
        {"p50", microseconds(result.after_idle_ns.percentile(50))},
        {"max", microseconds(result.after_idle_ns.max())}}},
      {"tx_zero_copy_bytes", result.transport.tx_zero_copy_bytes},
      {"tx_copied_bytes", result.transport.tx_copied_bytes},
      {"rx_zero_copy_bytes", result.engine.rx_zero_copy_bytes},
      {"rx_copied_bytes", result.engine.rx_copied_bytes + result.transport.rx_copied_bytes},
      {"retransmits", result.engine.retransmits},
      {"rx_dropped", result.transport.rx_dropped},
  };
  return out.dump(2) + "\n";
}

}  // namespace skua::rpc::perf
