// Opens a shard's database without changing a byte of it. For tools that look at a stopped node, and for copies.
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

// Declared here without their header, which has names in common with the client's header: both must not meet.
class ShardDb;
struct InternalRow;

/// A table or blob file that the database uses. Other files in its directory are leftovers.
struct StoredFile {
  std::string path;
  uint64_t bytes = 0;
  uint64_t entries = 0;  ///< including deletions and old versions
  int level = 0;         ///< kBlobLevel: a blob file, which holds large values
  static constexpr int kBlobLevel = -1;
};

/// While this is open, nothing may write to the directory. Thread: one at a time.
class OfflineDb {
 public:
  virtual ~OfflineDb() = default;

  /// Opens the shard's database in the directory `path`, whatever its name. Errors: as RocksdbEngine::open_db().
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OfflineDb>> open(const std::string& path, ShardId id);

  /// For get() and scan(). Calls that write fail.
  [[nodiscard]] virtual ShardDb& db() = 0;
  [[nodiscard]] virtual uint64_t applied_index() const = 0;
  [[nodiscard]] virtual uint32_t format() const = 0;
  /// As ShardDb::take_internal_rows().
  [[nodiscard]] virtual absl::StatusOr<std::vector<InternalRow>> take_internal_rows() = 0;
  [[nodiscard]] virtual std::vector<StoredFile> files() const = 0;
  /// Reads the file and compares every checksum. DATA_LOSS names the path and, where it is known, the offset.
  [[nodiscard]] virtual absl::Status check(const StoredFile& file) const = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_OFFLINE_DB_H_
