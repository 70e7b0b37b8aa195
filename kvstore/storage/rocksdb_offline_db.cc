#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include <atomic>
#include <cstdarg>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/blob_file.h"
#include "kvstore/storage/offline_db.h"
#include "kvstore/storage/rocksdb_background.h"
#include "kvstore/storage/rocksdb_internal.h"

namespace skua::kv {
namespace {

/// Without a logger of ours RocksDB makes a log file in the directory.
class SilentLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

rocksdb::Options read_only_options() {
  rocksdb::Options options;
  options.info_log = std::make_shared<SilentLogger>();
  // Tables are opened only when they are used, so that a damaged table does not hide the others.
  options.max_open_files = 64;
  options.skip_stats_update_on_db_open = true;
  return options;
}

/// RocksDB starts some names with a slash and others without.
std::string join_path(const std::string& directory, const std::string& name) {
  return name.starts_with('/') ? directory + name : directory + "/" + name;
}

class RocksdbOfflineDb final : public OfflineDb {
 public:
  explicit RocksdbOfflineDb(internal::OpenDatabase opened)
      : format_(opened.meta.format),
        rocksdb_(opened.db.get()),
        db_(internal::make_rocksdb_shard_db(std::move(opened), open_count_, internal_rows_)) {}

  [[nodiscard]] ShardDb& db() override { return *db_; }
  [[nodiscard]] uint64_t applied_index() const override { return db_->applied_index(); }
  [[nodiscard]] uint32_t format() const override { return format_; }
  [[nodiscard]] absl::StatusOr<std::vector<InternalRow>> take_internal_rows() override {
    if (!internal_rows_.ok()) return internal_rows_;
    return db_->take_internal_rows();
  }

  [[nodiscard]] std::vector<StoredFile> files() const override {
    std::vector<StoredFile> stored;
    rocksdb::ColumnFamilyMetaData about;
    rocksdb_->GetColumnFamilyMetaData(&about);
    for (const rocksdb::LevelMetaData& level : about.levels) {
      for (const rocksdb::SstFileMetaData& file : level.files) {
        stored.push_back({join_path(file.db_path, file.name), file.size, file.num_entries, level.level});
      }
    }
    for (const rocksdb::BlobMetaData& file : about.blob_files) {
      stored.push_back({join_path(file.blob_file_path, file.blob_file_name), file.blob_file_size, file.total_blob_count,
                        StoredFile::kBlobLevel});
    }
    return stored;
  }

  [[nodiscard]] absl::Status check(const StoredFile& file) const override {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(file.path, error);
    if (error) return absl::DataLossError(absl::StrCat(file.path, " cannot be read: ", error.message()));
    if (bytes != file.bytes) {
      return absl::DataLossError(absl::StrCat(file.path, " has ", bytes, " bytes; ", file.bytes, " were written"));
    }
    if (file.level == StoredFile::kBlobLevel) return check_blob_file(file.path);
    rocksdb::SstFileReader reader(read_only_options());
    rocksdb::Status status = reader.Open(file.path);
    if (status.ok()) status = reader.VerifyChecksum();
    return internal::to_status(status, "checking a table file", file.path);
  }

 private:
  absl::Status internal_rows_;  // OK: they could be read
  const uint32_t format_;
  std::atomic<int> open_count_{0};
  rocksdb::DB* const rocksdb_;  // owned by db_
  const std::unique_ptr<ShardDb> db_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OfflineDb>> OfflineDb::open(const std::string& path, ShardId id) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(read_only_options(), path, &raw);
  if (!status.ok()) return internal::to_status(status, "opening the database", path);
  std::unique_ptr<rocksdb::DB> db(raw);
  const auto meta = internal::check_database(*db, path, id);
  if (!meta.ok()) return meta.status();
  return std::make_unique<RocksdbOfflineDb>(
      internal::OpenDatabase{std::move(db), *meta, std::make_shared<std::atomic<bool>>(meta->expiring_blobs),
                             std::make_shared<internal::RocksdbBackground>()});
}

}  // namespace skua::kv
