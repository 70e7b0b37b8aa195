// A shard's completions on their way into its database: one row per client, beside the users' keys and in the same batch as
// the effects, so that what a crash leaves has both or neither.
//
//    records --record()--> table, clients touched --collect()--> one row for each client touched, in its newest state
//
// Many records of a client become one row, which holds only what the client may still ask for. The rows' keys are longer
// than a user's key may be: 1,024 zeros, then the client id (8 bytes, big endian). Whoever walks through a database passes
// over them with one seek (rocksdb_internal.h). There is no client 0; its row is shard_life.h's.
#ifndef SKUA_KVSTORE_ENGINE_COMPLETION_ROWS_H_
#define SKUA_KVSTORE_ENGINE_COMPLETION_ROWS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kvstore/codec/limits.h"
#include "kvstore/engine/completions.h"
#include "kvstore/engine/shard_db.h"

namespace skua::kv {

/// The key of a client's row.
[[nodiscard]] std::string completion_key(uint64_t client_id);

/// Thread: one at a time.
class CompletionRows {
 public:
  /// Takes over what the database has. DATA_LOSS if that is damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows);

  void record(const Completion& completion, uint64_t index, uint64_t time_ms);

  /// Appends the rows that changed since the last call, as of `index`. Views, valid until the next call of anything here.
  void collect(uint64_t index, std::vector<AppliedEffect>& out);

  [[nodiscard]] const CompletionTable& table() const { return table_; }

 private:
  struct Row {
    std::string key;
    std::string value;
  };

  CompletionTable table_;
  absl::flat_hash_set<uint64_t> touched_;
  std::deque<Row> rows_;  // that collect() gave out; kept for their capacity
};

/// Fills a table with a database's rows. DATA_LOSS if one of them is damaged.
[[nodiscard]] absl::Status load_completions(std::span<const InternalRow> rows, CompletionTable& table);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_COMPLETION_ROWS_H_
