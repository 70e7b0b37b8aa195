// A shard's database opened without changing a byte of it: for tools that look at a stopped node, and at copies.
#ifndef SKUA_KVSTORE_STORAGE_OFFLINE_DB_H_
#define SKUA_KVSTORE_STORAGE_OFFLINE_DB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/types/mutation.h"

namespace skua::kv {

// Their header would meet the client's, which has names in common with it.
class ShardDb;
struct InternalRow;

/// A table or blob file that the database uses; others in its directory are leftovers.
struct StoredFile {
  std::string path;
  uint64_t bytes = 0;
  uint64_t entries = 0;  ///< deletes and old versions included
  int level = 0;         ///< kBlobLevel: holds large values
  static constexpr int kBlobLevel = -1;
};

/// Nobody else may write to the directory meanwhile. Thread: one at a time.
class OfflineDb {
 public:
  virtual ~OfflineDb() = default;

  /// The database in <dir>/<table id>-<shard>. Errors: as RocksdbEngine::open_db.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OfflineDb>> open(const std::string& dir, ShardId id);
  /// The database in the directory `path`, whatever its name.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OfflineDb>> open_at(const std::string& path, ShardId id);

  /// To get and scan; whatever writes fails.
  [[nodiscard]] virtual ShardDb& db() = 0;
  [[nodiscard]] virtual uint64_t applied_index() const = 0;
  [[nodiscard]] virtual uint32_t format() const = 0;
  /// ShardDb::take_internal_rows().
  [[nodiscard]] virtual absl::StatusOr<std::vector<InternalRow>> take_internal_rows() = 0;
  [[nodiscard]] virtual std::vector<StoredFile> files() const = 0;
  /// Reads the file and compares every checksum. DATA_LOSS naming path and, where it is known, offset.
  [[nodiscard]] virtual absl::Status check(const StoredFile& file) const = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_OFFLINE_DB_H_
