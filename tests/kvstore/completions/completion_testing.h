// What tests of a shard's completion records have in common: small bounds, and the steps of a primary.
#ifndef SKUA_TESTS_KVSTORE_COMPLETIONS_COMPLETION_TESTING_H_
#define SKUA_TESTS_KVSTORE_COMPLETIONS_COMPLETION_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "kvstore/codec/effect.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/completions/completions.h"
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"
#include "tests/kvstore/codec/batch_results.h"

namespace skua::kv {

/// Bounds that a test reaches with few writes.
inline constexpr CompletionLimits kFewRecords = {.clients_max = 32,
                                                 .newcomers_max = 16,
                                                 .far_max = 4,
                                                 .bytes_max = 12'800,
                                                 .client_bytes_max = 1600,
                                                 .refused_bytes_max = 2000};

/// Operations of a batch whose result counts `bytes`.
[[nodiscard]] constexpr size_t ops_of(size_t bytes) {
  return (bytes - kCompletionResultBytes) / kBatchResultBytes;
}

/// Writes as a primary does. Returns true if the shard took the write.
[[nodiscard]] inline bool write(CompletionTable& table, const RequestId& id, uint64_t index, uint64_t now_ms,
                                size_t batch_ops = 0) {
  std::string results;
  for (size_t i = 0; i < batch_ops; ++i) append_batch_result({}, results);
  if (table.begin(id, now_ms, results.size()) != CompletionTable::Verdict::kNew) return false;
  table.record({id, 0, as_byte_span(results)}, index, now_ms);
  table.finish(id, results.size());
  return true;
}

/// Refuses as a primary does. Returns true if the shard evaluated the write, which had no effect.
[[nodiscard]] inline bool refuse(CompletionTable& table, const RequestId& id, uint64_t now_ms) {
  if (table.begin(id, now_ms) != CompletionTable::Verdict::kNew) return false;
  table.finish(id);
  table.refuse(id, {.seq = id.seq, .has_effect = false, .status = KvStatus::kNotFound}, now_ms);
  return true;
}

}  // namespace skua::kv

#endif  // SKUA_TESTS_KVSTORE_COMPLETIONS_COMPLETION_TESTING_H_
