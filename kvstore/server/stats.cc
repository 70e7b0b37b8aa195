#include "kvstore/server/stats.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// Appends one metric family; `each(worker, add)` calls add(labels, value) for each of its samples.
template <typename Each>
void family(std::string& out, std::span<const WorkerStats> workers, const char* name, const char* type,
            const char* help, Each each) {
  absl::StrAppend(&out, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  for (const WorkerStats& worker : workers) {
    each(worker, [&](const std::string& labels, uint64_t value) {
      absl::StrAppend(&out, name, "{worker=\"", worker.worker, "\"", labels.empty() ? "" : ",", labels, "} ", value,
                      "\n");
    });
  }
}

template <typename Value>
void simple(std::string& out, std::span<const WorkerStats> workers, const char* name, const char* type,
            const char* help, Value value) {
  family(out, workers, name, type, help, [&](const WorkerStats& worker, auto add) { add("", value(worker)); });
}

void format_requests(std::string& out, std::span<const WorkerStats> workers) {
  family(out, workers, "skua_requests_total", "counter", "Requests answered, by method and status.",
         [](const WorkerStats& worker, auto add) {
           for (size_t m = 1; m < kMethodCount; ++m) {
             for (size_t s = 0; s < kStatusCount; ++s) {
               if (worker.requests.answers[m][s] == 0) continue;
               add(absl::StrCat("method=\"", method_name(static_cast<Method>(m)), "\",status=\"",
                                status_name(static_cast<KvStatus>(s)), "\""),
                   worker.requests.answers[m][s]);
             }
           }
         });
  simple(out, workers, "skua_requests_expired_total", "counter", "Requests whose deadline had passed on arrival.",
         [](const WorkerStats& w) { return w.requests.deadline_expired; });
  simple(out, workers, "skua_request_bytes_total", "counter", "Bytes of requests.",
         [](const WorkerStats& w) { return w.requests.request_bytes; });
  simple(out, workers, "skua_reply_bytes_total", "counter", "Bytes of replies.",
         [](const WorkerStats& w) { return w.requests.reply_bytes; });
  simple(out, workers, "skua_value_copied_bytes_total", "counter", "Value bytes copied into replies.",
         [](const WorkerStats& w) { return w.requests.value_copied_bytes; });
  simple(out, workers, "skua_value_zero_copy_bytes_total", "counter",
         "Value bytes sent from where the storage engine keeps them.",
         [](const WorkerStats& w) { return w.requests.value_zero_copy_bytes; });
  simple(out, workers, "skua_reads_deferred_total", "counter", "Reads that went to the reader pool.",
         [](const WorkerStats& w) { return w.requests.reads_deferred; });
}

void format_commits(std::string& out, std::span<const WorkerStats> workers) {
  const char* const name = "skua_commit_group_mutations";
  absl::StrAppend(&out, "# HELP ", name, " Mutations per group commit.\n# TYPE ", name, " histogram\n");
  for (const WorkerStats& worker : workers) {
    const SizeHistogram& sizes = worker.requests.commit_groups;
    uint64_t below = 0;
    for (size_t i = 0; i + 1 < sizes.buckets.size(); ++i) {
      below += sizes.buckets[i];
      absl::StrAppend(&out, name, "_bucket{worker=\"", worker.worker, "\",le=\"", (uint64_t{2} << i) - 1, "\"} ", below,
                      "\n");
    }
    absl::StrAppend(&out, name, "_bucket{worker=\"", worker.worker, "\",le=\"+Inf\"} ", sizes.count, "\n", name,
                    "_sum{worker=\"", worker.worker, "\"} ", sizes.sum, "\n", name, "_count{worker=\"", worker.worker,
                    "\"} ", sizes.count, "\n");
  }
  simple(out, workers, "skua_log_refused_total", "counter", "Mutations refused because the log queue was full.",
         [](const WorkerStats& w) { return w.log_refused; });
}

void format_engine(std::string& out, std::span<const WorkerStats> workers) {
  family(out, workers, "skua_rpc_dropped_packets_total", "counter", "Packets dropped, by reason.",
         [](const WorkerStats& worker, auto add) {
           for (size_t i = 0; i < rpc::kDropReasonCount; ++i) {
             if (worker.endpoint.drops[i] == 0) continue;
             add(absl::StrCat("reason=\"", absl_view(rpc::drop_reason_name(static_cast<rpc::DropReason>(i))), "\""),
                 worker.endpoint.drops[i]);
           }
         });
  simple(out, workers, "skua_rpc_requests_served_total", "counter", "Requests given to handlers.",
         [](const WorkerStats& w) { return w.endpoint.requests_served; });
  simple(out, workers, "skua_rpc_requests_refused_total", "counter", "Requests refused by the engine.",
         [](const WorkerStats& w) { return w.endpoint.requests_refused; });
  simple(out, workers, "skua_rpc_retransmitted_packets_total", "counter", "Packets sent again.",
         [](const WorkerStats& w) { return w.endpoint.retransmits; });
  simple(out, workers, "skua_rpc_rx_copied_bytes_total", "counter", "Payload bytes that the engine copied on receive.",
         [](const WorkerStats& w) { return w.endpoint.rx_copied_bytes; });
  simple(out, workers, "skua_rpc_rx_zero_copy_bytes_total", "counter",
         "Payload bytes handed on where the transport put them.",
         [](const WorkerStats& w) { return w.endpoint.rx_zero_copy_bytes; });
  simple(out, workers, "skua_transport_tx_copied_bytes_total", "counter",
         "Payload bytes that the transport copied on transmit.",
         [](const WorkerStats& w) { return w.transport.tx_copied_bytes; });
  simple(out, workers, "skua_transport_tx_zero_copy_bytes_total", "counter",
         "Payload bytes given to the wire in place.",
         [](const WorkerStats& w) { return w.transport.tx_zero_copy_bytes; });
  simple(out, workers, "skua_transport_rx_copied_bytes_total", "counter",
         "Payload bytes that the transport copied on receive.",
         [](const WorkerStats& w) { return w.transport.rx_copied_bytes; });
}

}  // namespace

std::string format_metrics(std::span<const WorkerStats> workers) {
  std::string out;
  simple(out, workers, "skua_shards", "gauge", "Shards held.", [](const WorkerStats& w) { return w.shards; });
  simple(out, workers, "skua_sessions", "gauge", "Sessions of the data path.",
         [](const WorkerStats& w) { return w.sessions; });
  simple(out, workers, "skua_pending_requests", "gauge", "Requests that wait for a disk or a wire.",
         [](const WorkerStats& w) { return w.pending_requests; });
  format_requests(out, workers);
  format_commits(out, workers);
  format_engine(out, workers);
  return out;
}

}  // namespace skua::kv
