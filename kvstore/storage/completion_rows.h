// A shard's completions on their way into its database: one row per client, beside the users' keys and in the same batch as
// the effects, so that what a crash leaves has both or neither.
//
//    records --record()--> table, clients touched --collect()--> one row for each client touched, in its newest state
//
// Many records of a client become one row, which holds only what the client may still ask for. A record may also change rows of
// others, whose room it needs. A row's version is the index of its client's last record, so that a table that is loaded knows the
// order of the clients.
//
// The rows' keys are longer than a user's key may be: 1,024 zeros, then the client id (8 bytes, big endian). Whoever walks through a
// database passes over them with one seek (rocksdb_internal.h). There is no client 0; its row is shard_life.h's.
#ifndef SKUA_KVSTORE_STORAGE_COMPLETION_ROWS_H_
#define SKUA_KVSTORE_STORAGE_COMPLETION_ROWS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/completions/completions.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// The key of a client's row.
[[nodiscard]] std::string completion_key(uint64_t client_id);

/// Thread: one at a time.
class CompletionRows {
 public:
  /// CompletionTable::set_limits().
  void set_limits(const CompletionLimits& limits) { table_.set_limits(limits); }

  /// Takes over what the database has, as load_completions() does; what changed is written with the next rows.
  /// DATA_LOSS if that is damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows, uint64_t latest_ms = UINT64_MAX);

  void record(const Completion& completion, uint64_t index, uint64_t time_ms);

  /// Appends the rows that changed since the last written(), as of `index`. Views, valid until the next call of anything here.
  void collect(uint64_t index, std::vector<AppliedEffect>& out);
  /// The database has what collect() gave.
  void written() { touched_.clear(); }

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

/// Fills a table with a database's rows, as CompletionTable::loaded() says; tells whose rows are not what they were.
/// DATA_LOSS if one of them is damaged.
[[nodiscard]] absl::Status load_completions(
    std::span<const InternalRow> rows, CompletionTable& table, uint64_t latest_ms = UINT64_MAX,
    CompletionTable::Changed changed = [](uint64_t) {});

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_COMPLETION_ROWS_H_
