// Helpers of the log's tests.
#ifndef SKUA_TESTS_KVSTORE_LOG_LOG_TESTING_H_
#define SKUA_TESTS_KVSTORE_LOG_LOG_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/log/log.h"
#include "kvstore/log/log_recovery.h"
#include "kvstore/log/record.h"
#include "tests/kvstore/log/sim_device.h"

namespace skua::kv::testing {

inline std::unique_ptr<LogRecovery> scan(Device& device, const LogIdentity& identity = {}) {
  return LogRecovery::scan(device, identity, [](const LogProgress&) {}).value();
}

inline std::unique_ptr<Log> open_log(Device& device, const LogOptions& options) {
  return Log::open(device, options, *scan(device, options.identity)).value();
}

/// Eight pages a segment, groups of up to a quarter of that.
inline LogOptions small_options() {
  LogOptions options;
  options.segment_bytes = 8 * kPageBytes;
  options.group_bytes_max = 2 * kPageBytes;
  options.segments_max = 4;
  options.reserve_segments = 1;
  options.spares_at_open = 1;
  options.spares_max = 3;
  return options;
}

inline RecordHeader header_of(LogShard shard, uint64_t index, Durability durability = Durability::kSync,
                              uint64_t epoch = 1) {
  return {shard, index, epoch, 0, RecordKind::kData, durability, 0};
}

inline absl::Status append(Log& log, LogShard shard, uint64_t index, std::string_view payload,
                           Durability durability = Durability::kSync) {
  const ByteSpan piece = as_byte_span(payload);
  return log.append(header_of(shard, index, durability), {&piece, 1});
}

/// Index of the shard's next record, if the durable store has the applied ones.
inline uint64_t next_index(const LogRecovery& recovery, const AppliedIndex& applied) {
  uint64_t last = applied.index;
  for (const ShardPosition& position : recovery.shards()) {
    if (position.shard == applied.shard) last = std::max(last, position.last_index);
  }
  return last + 1;
}

/// "shard:index=payload" of each record that a replay yields, in order.
inline std::vector<std::string> replayed(LogRecovery& recovery, const std::vector<AppliedIndex>& applied) {
  std::vector<std::string> seen;
  const auto visit = [&](const RecordView& record) {
    seen.push_back(std::to_string(record.header.shard) + ":" + std::to_string(record.header.index) + "=" +
                   std::string(as_string_view(record.payload)));
  };
  if (!recovery.replay(applied, visit, [](const LogProgress&) {}).ok()) seen.emplace_back("error");
  return seen;
}

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_LOG_LOG_TESTING_H_
