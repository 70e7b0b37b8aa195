// Batch: writes to keys of one shard. All of them are applied, or none.
//
//   Batch batch;
//   batch.add("balance", -5).add("spent", 5).put("last", "coffee", {.if_version = seen});
//   BatchResult result = client->batch("wallet-17", batch);
//
// Operations are evaluated in their order. Each sees what the operations before it did. If an operation cannot be done
// (a condition does not hold, a value is not a number, ...), none is applied; the result says which operation it was
// and why.
//
// A check writes nothing, and lets the batch be applied only if a key still has the version that was read. With checks
// of all keys that were read, a batch is a transaction:
//
//   batch.check("rate", rate.version).check("veto", 0);
//   batch.put("price", price_at(rate.value), {.if_version = price.version});
//
// All keys must be in one shard. A key's shard follows from the hash of the key, so batches fit tables of one shard,
// several writes to one key, and keys that are known to be in one shard. A batch with keys of several shards fails with
// INVALID_ARGUMENT, which names two such keys.
//
// Limits: 1,024 operations (kBatchOpsMax), 16 MiB with keys and values as they are encoded (kBatchBytesMax).
#ifndef SKUA_KVSTORE_CLIENT_BATCH_H_
#define SKUA_KVSTORE_CLIENT_BATCH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/client/types.h"
#include "kvstore/codec/batch.h"

namespace skua::kv {

struct BatchOpOptions {
  /// These five as in WriteOptions.
  std::optional<uint64_t> if_version{};
  bool if_absent = false;
  bool if_present = false;
  std::chrono::nanoseconds ttl{0};
  bool keep_ttl = false;
  /// PATCH only: if the key is missing, make a row of the given fields; otherwise a missing key is NOT_FOUND.
  bool create_if_missing = false;
  /// PUT: as in WriteOptions. PATCH: `row` as in PatchOptions.
  RecordMark mark{};
};

/// Copies all keys, values and fields that it is given. If an operation is refused (a limit, contradictory options),
/// the batch ignores all further operations until clear(), and submitting the batch fails with status(). A batch may be
/// submitted any number of times; each time is a new write. Thread: one at a time.
class Batch {
 public:
  Batch& put(std::string_view key, std::string_view value, const BatchOpOptions& options = {});
  Batch& remove(std::string_view key, const BatchOpOptions& options = {});
  Batch& add(std::string_view key, int64_t delta, const BatchOpOptions& options = {});
  Batch& append(std::string_view key, std::string_view bytes, const BatchOpOptions& options = {});
  Batch& patch(std::string_view key, std::span<const FieldUpdate> fields, const BatchOpOptions& options = {});
  /// `ttl` 0: the key does not expire. `options.ttl` is ignored.
  Batch& expire(std::string_view key, std::chrono::nanoseconds ttl, const BatchOpOptions& options = {});
  /// The batch is applied only if the key has this version; 0: only if the key is absent. Otherwise the batch fails
  /// with FAILED_PRECONDITION, as by an operation with if_version. A check of a key must stand before the batch's
  /// writes of that key, because it sees them. UNIMPLEMENTED: the node's version is too old for checks.
  Batch& check(std::string_view key, uint64_t version);
  /// Removes all operations and resets status(). Keeps its memory for the next operations.
  void clear();

  [[nodiscard]] size_t size() const { return ops_.size(); }
  /// OK, or which operation was refused and why.
  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  friend class BatchOperation;
  Batch& append_op(Mutation&& op, const BatchOpOptions& options);

  BatchOpsBuilder ops_;
  std::string row_;  // the fields of a PATCH while they are encoded
  absl::Status status_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_BATCH_H_
