#include "kvstore/service/stats.h"

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
  simple(out, workers, "skua_backup_reads_total", "counter",
         "Reads answered by replicas that are not their shard's primary (read_anywhere).",
         [](const WorkerStats& w) { return w.requests.backup_reads; });
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

void format_memory(std::string& out, std::span<const WorkerStats> workers) {
  const auto memory = [&](const char* name, const char* type, const char* help, auto field) {
    simple(out, workers, name, type, help, [field](const WorkerStats& w) { return w.storage.memory.*field; });
  };
  using Memory = MemoryTier::Counters;
  memory("skua_memory_hits_total", "counter", "Lookups that found their key in memory.", &Memory::hits);
  memory("skua_memory_absent_hits_total", "counter", "Lookups that memory knew to be absent.", &Memory::absent_hits);
  memory("skua_memory_misses_total", "counter", "Lookups that needed the database.", &Memory::misses);
  memory("skua_memory_evicted_items_total", "counter", "Items that left memory for others.", &Memory::evicted_items);
  memory("skua_memory_value_copied_bytes_total", "counter", "Value bytes copied into memory, by writes and reads.",
         &Memory::value_bytes_copied);
  memory("skua_memory_items", "gauge", "Items in memory.", &Memory::items);
  memory("skua_memory_dirty_bytes", "gauge", "Bytes in memory that their databases do not have yet.",
         &Memory::dirty_bytes);
  memory("skua_memory_resident_bytes", "gauge", "Bytes of memory in use, of the worker's share of --memory.",
         &Memory::resident_bytes);
  memory("skua_memory_pinned_regions", "gauge", "Regions that replies under way are sent from.",
         &Memory::pinned_regions);
}

void format_storage(std::string& out, std::span<const WorkerStats> workers) {
  const auto figure = [&](const char* name, const char* type, const char* help, auto value) {
    simple(out, workers, name, type, help, [value](const WorkerStats& w) { return value(w.storage); });
  };
  using Storage = WorkerEngine::Counters;
  figure("skua_writes_refused_total", "counter", "Writes answered RESOURCE_EXHAUSTED.",
         [](const Storage& s) { return s.writes_refused; });
  figure("skua_writes_unfinished", "gauge", "Writes that wait for a disk or for memory.",
         [](const Storage& s) { return s.unfinished; });
  figure("skua_log_syncs_total", "counter", "Syncs of the log.", [](const Storage& s) { return s.log.syncs; });
  figure("skua_log_groups_total", "counter", "Groups of records written to the log.",
         [](const Storage& s) { return s.log.groups; });
  figure("skua_log_records_total", "counter", "Records in these groups.",
         [](const Storage& s) { return s.log.records; });
  figure("skua_log_written_bytes_total", "counter", "Bytes written to the log.",
         [](const Storage& s) { return s.log.bytes_written; });
  figure("skua_log_segments", "gauge", "Segments of the log that are in use.",
         [](const Storage& s) { return s.log.segments_in_use; });
  figure("skua_log_failed", "gauge", "1 if the log failed and the worker's shards refuse writes.",
         [](const Storage& s) { return uint64_t{s.log_health.ok() ? 0U : 1U}; });
  figure("skua_applied_effects_total", "counter", "Committed effects that went to the databases.",
         [](const Storage& s) { return s.applier.effects; });
  figure("skua_applied_effects_written_total", "counter", "Of these, those that no later one of their batch replaced.",
         [](const Storage& s) { return s.applier.effects_written; });
  figure("skua_database_flushes_total", "counter", "Flushes that let the log go.",
         [](const Storage& s) { return s.applier.flushes; });
  figure("skua_fetches_total", "counter", "Reads of databases for single keys.",
         [](const Storage& s) { return s.fetches; });
  figure("skua_fetches_shared_total", "counter", "Misses that the read for an earlier one answered.",
         [](const Storage& s) { return s.fetches_shared; });
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
  format_memory(out, workers);
  format_storage(out, workers);
  format_engine(out, workers);
  return out;
}

}  // namespace skua::kv
