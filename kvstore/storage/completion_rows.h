// Brings a shard's completions into its database: one row per client, beside the users' keys and in the same batch as
// the effects. So after a crash the database has both or neither.
//
//    records --record()--> table, clients touched --collect()--> one row for each client touched, in its newest state
//
// Many records of a client become one row, which holds only results that the client may still ask for. A record may
// also change rows of other clients, whose room it needs. The version of a row is the index of its client's last
// record, so that a loaded table knows the order of the clients.
//
// The keys of these rows are longer than a user's key may be: 1,024 zeros, then the client id (8 bytes, big endian).
// Code that walks through a database passes over them with one seek (rocksdb_internal.h). No client has id 0; the row
// with this id belongs to shard_life.h.
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
  /// See CompletionTable::set_limits().
  void set_limits(const CompletionLimits& limits) { table_.set_limits(limits); }

  /// Loads the completions of a database, as load_completions() does. What changed by that is written with the next
  /// rows. DATA_LOSS if a row is damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows, uint64_t latest_ms = UINT64_MAX);

  void record(const Completion& completion, uint64_t index, uint64_t time_ms);

  /// Appends the rows that changed since the last written(), as of `index`. The effects are views, valid until the next
  /// call to this object other than written().
  void collect(uint64_t index, std::vector<AppliedEffect>& out);
  /// Must be called when the database has what collect() gave.
  void written() { touched_.clear(); }

  [[nodiscard]] const CompletionTable& table() const { return table_; }

 private:
  struct Row {
    std::string key;
    std::string value;
  };

  CompletionTable table_;
  absl::flat_hash_set<uint64_t> touched_;
  std::deque<Row> rows_;  // given out by collect(); kept for their capacity
};

/// Loads the completion rows among `rows` into `table`, and calls CompletionTable::loaded(). Calls `changed` for each
/// client whose row differs from what was loaded. DATA_LOSS if a row is damaged.
[[nodiscard]] absl::Status load_completions(
    std::span<const InternalRow> rows, CompletionTable& table, uint64_t latest_ms = UINT64_MAX,
    CompletionTable::Changed changed = [](uint64_t) {});

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_COMPLETION_ROWS_H_
