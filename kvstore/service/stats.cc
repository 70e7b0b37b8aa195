#include "kvstore/service/stats.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// Appends one metric family; `each(worker, add)` calls add(labels, value) for each of its samples. A family whose name
/// ends with _total is of counters; the others are of gauges.
template <typename Each>
void family(std::string& out, std::span<const WorkerStats> workers, const char* name, const char* help, Each each) {
  const char* const type = absl::EndsWith(name, "_total") ? "counter" : "gauge";
  absl::StrAppend(&out, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  for (const WorkerStats& worker : workers) {
    each(worker, [&](const std::string& labels, uint64_t value) {
      absl::StrAppend(&out, name, "{worker=\"", worker.worker, "\"", labels.empty() ? "" : ",", labels, "} ", value,
                      "\n");
    });
  }
}

/// A metric with one figure for each worker.
struct Metric {
  const char* name;
  const char* help;
  uint64_t (*value)(const WorkerStats&);
};

void append(std::string& out, std::span<const WorkerStats> workers, std::span<const Metric> metrics) {
  for (const Metric& metric : metrics) {
    family(out, workers, metric.name, metric.help,
           [&](const WorkerStats& worker, auto add) { add("", metric.value(worker)); });
  }
}

/// Counters at 0 are shown, because Prometheus computes rates from the value before the first answer. Numbers that are
/// no KvStatus are left out.
bool is_status(size_t number) {
  const auto status = static_cast<KvStatus>(number);
  return status == KvStatus::kUnknown || absl::string_view(status_name(status)) != "UNKNOWN";
}

void format_answers(std::string& out, std::span<const WorkerStats> workers) {
  family(out, workers, "skua_requests_total", "Requests answered, by method and status.",
         [](const WorkerStats& worker, auto add) {
           for (size_t m = 1; m < kMethodCount; ++m) {
             for (size_t s = 0; s < kStatusCount; ++s) {
               if (!is_status(s)) continue;
               add(absl::StrCat("method=\"", method_name(static_cast<Method>(m)), "\",status=\"",
                                status_name(static_cast<KvStatus>(s)), "\""),
                   worker.requests.answers[m][s]);
             }
           }
         });
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
}

using Worker = const WorkerStats&;

constexpr Metric kHeldMetrics[] = {
    {"skua_shards", "Shards held.", [](Worker w) { return w.shards; }},
    {"skua_sessions", "Sessions of the data path.", [](Worker w) { return w.sessions; }},
    {"skua_pending_requests", "Requests that wait for a disk or a wire.", [](Worker w) { return w.pending_requests; }},
};

constexpr Metric kRequestMetrics[] = {
    {"skua_requests_expired_total", "Requests whose deadline had passed on arrival.",
     [](Worker w) { return w.requests.deadline_expired; }},
    {"skua_request_bytes_total", "Bytes of requests.", [](Worker w) { return w.requests.request_bytes; }},
    {"skua_reply_bytes_total", "Bytes of replies.", [](Worker w) { return w.requests.reply_bytes; }},
    {"skua_value_copied_bytes_total", "Value bytes copied into replies.",
     [](Worker w) { return w.requests.value_copied_bytes; }},
    {"skua_value_zero_copy_bytes_total", "Value bytes sent from where the storage engine keeps them.",
     [](Worker w) { return w.requests.value_zero_copy_bytes; }},
    {"skua_reads_deferred_total", "Reads that went to the reader pool.",
     [](Worker w) { return w.requests.reads_deferred; }},
    {"skua_backup_reads_total", "Reads answered by replicas that are not their shard's primary (read_anywhere).",
     [](Worker w) { return w.requests.backup_reads; }},
};

constexpr Metric kMemoryMetrics[] = {
    {"skua_memory_hits_total", "Lookups that found their key in memory.",
     [](Worker w) { return w.storage.memory.hits; }},
    {"skua_memory_absent_hits_total", "Lookups that memory knew to be absent.",
     [](Worker w) { return w.storage.memory.absent_hits; }},
    {"skua_memory_misses_total", "Lookups that needed the database.", [](Worker w) { return w.storage.memory.misses; }},
    {"skua_memory_evicted_items_total", "Items that left memory for others.",
     [](Worker w) { return w.storage.memory.evicted_items; }},
    {"skua_memory_value_copied_bytes_total", "Value bytes copied into memory, by writes and reads.",
     [](Worker w) { return w.storage.memory.value_bytes_copied; }},
    {"skua_memory_items", "Items in memory.", [](Worker w) { return w.storage.memory.items; }},
    {"skua_memory_dirty_bytes", "Bytes in memory that their databases do not have yet.",
     [](Worker w) { return w.storage.memory.dirty_bytes; }},
    {"skua_memory_resident_bytes", "Bytes of memory in use, of the worker's share of --memory.",
     [](Worker w) { return w.storage.memory.resident_bytes; }},
    {"skua_memory_pinned_regions", "Regions that replies under way are sent from.",
     [](Worker w) { return w.storage.memory.pinned_regions; }},
};

constexpr Metric kStorageMetrics[] = {
    {"skua_writes_refused_total", "Writes answered RESOURCE_EXHAUSTED.",
     [](Worker w) { return w.storage.writes_refused; }},
    {"skua_writes_unfinished", "Writes that wait for a disk or for memory.",
     [](Worker w) { return w.storage.unfinished; }},
    {"skua_log_syncs_total", "Syncs of the log.", [](Worker w) { return w.storage.log.syncs; }},
    {"skua_log_groups_total", "Groups of records written to the log.", [](Worker w) { return w.storage.log.groups; }},
    {"skua_log_records_total", "Records in these groups.", [](Worker w) { return w.storage.log.records; }},
    {"skua_log_written_bytes_total", "Bytes written to the log.", [](Worker w) { return w.storage.log.bytes_written; }},
    {"skua_log_segments", "Segments of the log that are in use.",
     [](Worker w) { return w.storage.log.segments_in_use; }},
    {"skua_log_failed", "1 if the log failed and the worker's shards refuse writes.",
     [](Worker w) { return uint64_t{w.storage.log_health.ok() ? 0U : 1U}; }},
    {"skua_applied_effects_total", "Committed effects that went to the databases.",
     [](Worker w) { return w.storage.applier.effects; }},
    {"skua_applied_effects_written_total", "Of these, those that no later one of their batch replaced.",
     [](Worker w) { return w.storage.applier.effects_written; }},
    {"skua_database_flushes_total", "Flushes that let the log go.", [](Worker w) { return w.storage.applier.flushes; }},
    {"skua_fetches_total", "Reads of databases for single keys.", [](Worker w) { return w.storage.fetches; }},
    {"skua_fetches_shared_total", "Misses that the read for an earlier one answered.",
     [](Worker w) { return w.storage.fetches_shared; }},
};

constexpr Metric kEngineMetrics[] = {
    {"skua_rpc_requests_served_total", "Requests given to handlers.",
     [](Worker w) { return w.endpoint.requests_served; }},
    {"skua_rpc_requests_refused_total", "Requests refused by the engine.",
     [](Worker w) { return w.endpoint.requests_refused; }},
    {"skua_rpc_retransmitted_packets_total", "Packets sent again.", [](Worker w) { return w.endpoint.retransmits; }},
    {"skua_rpc_rx_copied_bytes_total", "Payload bytes that the engine copied on receive.",
     [](Worker w) { return w.endpoint.rx_copied_bytes; }},
    {"skua_rpc_rx_zero_copy_bytes_total", "Payload bytes handed on where the transport put them.",
     [](Worker w) { return w.endpoint.rx_zero_copy_bytes; }},
    {"skua_transport_tx_copied_bytes_total", "Payload bytes that the transport copied on transmit.",
     [](Worker w) { return w.transport.tx_copied_bytes; }},
    {"skua_transport_tx_zero_copy_bytes_total", "Payload bytes given to the wire in place.",
     [](Worker w) { return w.transport.tx_zero_copy_bytes; }},
    {"skua_transport_rx_copied_bytes_total", "Payload bytes that the transport copied on receive.",
     [](Worker w) { return w.transport.rx_copied_bytes; }},
};

}  // namespace

std::string format_metrics(std::span<const WorkerStats> workers) {
  std::string out;
  append(out, workers, kHeldMetrics);
  format_answers(out, workers);
  append(out, workers, kRequestMetrics);
  family(out, workers, "skua_quota_refusals_total",
         "Requests and sessions refused because a client had used up its quota, by what the quota limits.",
         [](const WorkerStats& worker, auto add) {
           for (size_t kind = 0; kind < kQuotaKinds; ++kind) {
             add(absl::StrCat("quota=\"", kQuotaKindNames[kind], "\""), worker.quota_refusals[kind]);
           }
         });
  format_commits(out, workers);
  append(out, workers, kMemoryMetrics);
  append(out, workers, kStorageMetrics);
  family(out, workers, "skua_rpc_dropped_packets_total", "Packets dropped, by reason.",
         [](const WorkerStats& worker, auto add) {
           for (size_t i = 0; i < rpc::kDropReasonCount; ++i) {
             add(absl::StrCat("reason=\"", absl_view(rpc::drop_reason_name(static_cast<rpc::DropReason>(i))), "\""),
                 worker.endpoint.drops[i]);
           }
         });
  append(out, workers, kEngineMetrics);
  return out;
}

}  // namespace skua::kv
