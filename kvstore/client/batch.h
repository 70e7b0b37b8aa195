// Batch: mutations of keys of one shard that are applied all or not at all.
//
//   Batch batch;
//   batch.add("balance", -5).add("spent", 5).put("last", "coffee", {.if_version = seen});
//   BatchResult result = client->batch("wallet-17", batch);
//
// Operations are evaluated in their order, and one sees what those before it did. If one cannot be done (a condition, a
// value that is no number, ...) none is, and its status says which and why.
//
// All keys must be in one shard: shards cut a table by the hash of the key, so this is for tables of one shard, for
// several writes of one key, and for keys that are known to lie together. Otherwise the batch fails with INVALID_ARGUMENT
// naming two keys that do not.
//
// Bounds: 1,024 operations (kBatchOpsMax), 16 MiB with keys (kBatchBytesMax).
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
  /// As in WriteOptions.
  std::optional<uint64_t> if_version{};
  bool if_absent = false;
  std::chrono::nanoseconds ttl{0};
  /// PATCH: a missing key becomes a row of the given fields instead of NOT_FOUND.
  bool create_if_missing = false;
};

/// Copies what it is given. Once an operation was refused (a limit, contradictory options) the batch takes no more, and
/// submitting it fails with status(). May be submitted any number of times; each time is another write.
/// Thread: one at a time.
class Batch {
 public:
  Batch& put(std::string_view key, std::string_view value, const BatchOpOptions& options = {});
  Batch& remove(std::string_view key, const BatchOpOptions& options = {});
  Batch& add(std::string_view key, int64_t delta, const BatchOpOptions& options = {});
  Batch& append(std::string_view key, std::string_view bytes, const BatchOpOptions& options = {});
  Batch& patch(std::string_view key, std::span<const FieldUpdate> fields, const BatchOpOptions& options = {});
  /// `ttl` 0: for ever.
  Batch& expire(std::string_view key, std::chrono::nanoseconds ttl, const BatchOpOptions& options = {});
  /// Empties it, for the next; keeps its memory.
  void clear();

  [[nodiscard]] size_t size() const { return ops_.size(); }
  /// OK, or which operation was refused and why.
  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  friend class ClientCore;
  Batch& append_op(BatchOp op, const BatchOpOptions& options);

  BatchOpsBuilder ops_;
  std::string row_;  // a patch's fields while they are encoded
  absl::Status status_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_BATCH_H_
