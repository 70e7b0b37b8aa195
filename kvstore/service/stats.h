// The counters of a worker. They are plain integers of the worker's thread. Another thread asks for a copy through the
// worker's mailbox.
#ifndef SKUA_KVSTORE_SERVICE_STATS_H_
#define SKUA_KVSTORE_SERVICE_STATS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvstore/codec/methods.h"
#include "kvstore/service/quotas.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/types/status.h"
#include "rpc/endpoint.h"

namespace skua::kv {

inline constexpr size_t kMethodCount = 11;  // methods are 1..10; 0 is unused
inline constexpr size_t kStatusCount = 48;  // gRPC's 0..16 and Skua's own from 32

/// Counts by power of two: bucket i holds sizes in [2^i, 2^(i+1)).
struct SizeHistogram {
  std::array<uint64_t, 16> buckets{};
  uint64_t count = 0;
  uint64_t sum = 0;

  void record(size_t size) {
    const size_t bucket = size < 2 ? 0 : static_cast<size_t>(std::bit_width(size)) - 1;
    ++buckets[bucket < buckets.size() ? bucket : buckets.size() - 1];
    ++count;
    sum += size;
  }
};

struct RequestStats {
  /// Answers given, by method and KvStatus.
  std::array<std::array<uint64_t, kStatusCount>, kMethodCount> answers{};
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
  /// Value bytes of replies: copied into the message, or sent from where they lie.
  uint64_t value_copied_bytes = 0;
  uint64_t value_zero_copy_bytes = 0;
  /// Reads that a reader thread did, because memory lacked a key, or because they copy many bytes.
  uint64_t reads_deferred = 0;
  /// Reads answered by replicas that were not their shard's primary (read_anywhere).
  uint64_t backup_reads = 0;
  /// Requests whose deadline had passed on arrival.
  uint64_t deadline_expired = 0;
  /// Mutations per group of the log, counted when the group comes back.
  SizeHistogram commit_groups;

  void count(Method method, KvStatus status) {
    const auto m = static_cast<size_t>(method);
    const auto s = static_cast<size_t>(status);
    ++answers[m < kMethodCount ? m : 0][s < kStatusCount ? s : kStatusCount - 1];
  }
};

/// A shard that was removed from the worker and is not closed yet.
struct LeavingShard {
  ShardId id;
  uint64_t since_ms = 0;  ///< unix time
  std::string waits_for;
};

/// A worker's counters at one moment.
struct WorkerStats {
  uint32_t worker = 0;
  size_t shards = 0;
  size_t pending_requests = 0;
  size_t sessions = 0;
  RequestStats requests;
  /// Requests and sessions that were refused because a client had used up its quota, by QuotaKind.
  std::array<uint64_t, kQuotaKinds> quota_refusals{};
  rpc::EndpointCounters endpoint;
  rpc::TransportCounters transport;
  WorkerEngine::Counters storage;
  std::vector<LeavingShard> leaving;
  std::vector<TroubledShard> troubled;
  /// Texts about workers of other nodes that refuse what this worker replicates to them.
  std::vector<std::string> refusals;
};

/// The counters in Prometheus' text format: names begin with `skua_`, and each metric has HELP and TYPE.
[[nodiscard]] std::string format_metrics(std::span<const WorkerStats> workers);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_STATS_H_
