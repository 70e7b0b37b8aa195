#include "kvstore/storage/rocksdb_engine.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/storage/rocksdb_background.h"
#include "kvstore/storage/rocksdb_info_log.h"
#include "kvstore/storage/rocksdb_internal.h"
#include "kvstore/storage/rocksdb_memtables.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace internal {
namespace {

/// A flag in a database's record about itself: Meta::expiring_blobs.
constexpr uint32_t kExpiringBlobsFlag = 1;

}  // namespace

std::string encode_meta(const Meta& meta) {
  std::string bytes;
  bytes.reserve(kMetaBytes);
  append_le(bytes, meta.format, meta.id.table_id, meta.id.shard, meta.expiring_blobs ? kExpiringBlobsFlag : uint32_t{0},
            meta.last_index);
  return bytes;
}

absl::StatusOr<Meta> decode_meta(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  Meta meta;
  uint32_t flags = 0;
  reader.read_into(meta.format, meta.id.table_id, meta.id.shard, flags, meta.last_index);
  meta.expiring_blobs = (flags & kExpiringBlobsFlag) != 0;
  if (reader.ok() && (meta.format < 1 || meta.format > kMetaFormatWithMarks)) {
    return absl::FailedPreconditionError(absl::StrCat("the shard's data has format ", meta.format,
                                                      "; this build reads formats 1 to ", kMetaFormatWithMarks));
  }
  if (!reader.complete()) {
    return absl::DataLossError(absl::StrCat("the shard's own record has ", bytes.size(), " bytes"));
  }
  return meta;
}

absl::Status to_status(const rocksdb::Status& status, const char* what, const std::string& path) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat(what, " in ", path, ": ", status.ToString());
  if (status.IsNotFound()) return absl::NotFoundError(text);
  if (status.IsCorruption()) return absl::DataLossError(text);
  if (is_shortage(status)) return absl::ResourceExhaustedError(text);
  if (status.IsInvalidArgument()) return absl::FailedPreconditionError(text);
  if (status.IsBusy() || status.IsTryAgain() || status.IsIncomplete() || status.IsShutdownInProgress() ||
      status.IsTimedOut()) {
    return absl::UnavailableError(text);
  }
  return absl::InternalError(text);
}

std::optional<Versioned> split_version(const rocksdb::Slice& stored) {
  if (stored.size() < kVersionPrefixBytes) return std::nullopt;
  ByteReader reader(to_bytes(stored));
  const auto word = reader.read<uint64_t>();
  Versioned out{.version = word & ~(kHasExpiryBit | kHasMarkBit), .value = {}, .expires_at = 0, .mark = {}};
  if ((word & kHasExpiryBit) != 0) out.expires_at = reader.read<uint64_t>();
  if ((word & kHasMarkBit) != 0) {
    const auto mark = RecordMark::of_word(reader.read<uint64_t>());
    if (!mark.has_value()) return std::nullopt;
    out.mark = *mark;
  }
  if (!reader.ok()) return std::nullopt;
  out.value = reader.read_rest();
  return out;
}

absl::StatusOr<Meta> check_database(rocksdb::DB& db, const std::string& path, ShardId id) {
  std::string record;
  const rocksdb::Status status = db.Get({}, to_slice(kMetaKey), &record);
  if (status.IsNotFound()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a shard's database"));
  }
  if (!status.ok()) return to_status(status, "reading the shard's own record", path);
  auto meta = decode_meta(record);
  if (!meta.ok()) {
    return absl::Status(meta.status().code(), absl::StrCat(path, ": ", meta.status().message()));
  }
  if (meta->id != id) {
    return absl::FailedPreconditionError(absl::StrCat(path, " holds shard ", files::shard_name(meta->id), ", not ",
                                                      files::shard_name(id), "; put directories back where they were"));
  }
  return meta;
}

namespace {

namespace fs = std::filesystem;
using files::io_error;
using files::parse_shard_name;
using files::remove_tree;
using files::rename_and_sync;
using files::shard_name;

/// Of each database. When the memtables of all databases exceed their share, they are flushed earlier
/// (rocksdb_memtables.h).
constexpr size_t kMemtableBytes = size_t{64} << 20;
/// RocksDB must never stop writes by itself. While it does, DB::Flush without waiting is refused, and a flush that
/// failed on a full disk must be asked for again. rocksdb_memtables.h bounds the memory, and slower writes bound the
/// number of files.
constexpr int kNoStop = std::numeric_limits<int>::max() / 2;
/// The memory that each memtable takes as soon as it is not empty.
constexpr size_t kMemtableBlockBytes = size_t{256} << 10;
/// Blob files with more than this share of garbage are rewritten by compactions of their own.
constexpr double kBlobGarbageMax = 0.5;

rocksdb::CompressionType best_compression() {
  const auto supported = rocksdb::GetSupportedCompressions();
  const bool has_lz4 = std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != supported.end();
  return has_lz4 ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
}

/// Durably, since RocksDB's log is synced.
rocksdb::Status put_meta(rocksdb::DB& db, const Meta& meta) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  return db.Put(synced, to_slice(kMetaKey), encode_meta(meta));
}

/// All keys have one prefix, the empty one. A memtable keeps a hint for each prefix: where the last key was inserted.
class OnePrefix final : public rocksdb::SliceTransform {
 public:
  [[nodiscard]] const char* Name() const override { return "skua.OnePrefix"; }
  [[nodiscard]] rocksdb::Slice Transform(const rocksdb::Slice& /*key*/) const override { return {}; }
  [[nodiscard]] bool InDomain(const rocksdb::Slice& /*key*/) const override { return true; }
};

class Engine final : public RocksdbEngine {
 public:
  Engine(const RocksdbOptions& options, rocksdb::Env* env)
      : cache_(rocksdb::NewLRUCache(options.cache_bytes)), memtables_(options.write_buffer_bytes, cache_) {
    env->SetBackgroundThreads(std::max(1, options.background_threads), rocksdb::Env::LOW);
    env->SetBackgroundThreads(1, rocksdb::Env::HIGH);
    db_options_.env = env;
    db_options_.write_buffer_manager = memtables_.manager();
    db_options_.max_background_jobs = std::max(1, options.background_threads) + 1;
    db_options_.max_open_files = -1;
    clock_ = options.clock;
    db_options_.keep_log_file_num = 1;  // the log files of RocksDB that earlier versions left (rocksdb_info_log.h)
    db_options_.stats_dump_period_sec = 0;
    db_options_.stats_persist_period_sec = 0;
    set_durability_options();
    set_memtable_options(options.write_buffer_bytes);
    set_table_options();
  }

  ~Engine() override { SKUA_CHECK(open_count_.load() == 0, "destroy the databases before their engine"); }

  absl::StatusOr<std::unique_ptr<ShardDb>> open_db(const std::string& dir, ShardId id, IfMissing if_missing) override;
  absl::Status destroy_shard(const std::string& dir, ShardId id) override;
  absl::StatusOr<std::vector<ShardId>> list_shards(const std::string& dir) override;
  void set_cache_bytes(size_t bytes) override { cache_->SetCapacity(bytes); }
  [[nodiscard]] size_t cache_used_bytes() const override { return cache_->GetUsage(); }

 private:
  void set_durability_options() {
    // These two are for data of format 1, whose batches were all synced. Only a record cut short at the end of
    // RocksDB's log can be torn. A bad record before the end is corruption and must not pass for the end of the log.
    db_options_.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    db_options_.track_and_verify_wals_in_manifest = true;
    db_options_.avoid_flush_during_shutdown = true;  // it waits without end on a full disk; a shard flushes before
    db_options_.max_bgerror_resume_count = 0;        // RocksDB must not try a failed sync again by itself
    db_options_.allow_concurrent_memtable_write = false;
    db_options_.enable_write_thread_adaptive_yield = false;
    // Each shard has a manifest, and it is small. The default of 4 MiB each would fill a small disk.
    db_options_.manifest_preallocation_size = size_t{64} << 10;
  }

  void set_memtable_options(size_t write_buffer_bytes) {
    db_options_.write_buffer_size = std::min(kMemtableBytes, std::max(write_buffer_bytes / 2, size_t{1} << 20));
    db_options_.max_write_buffer_number = kNoStop;
    db_options_.level0_stop_writes_trigger = kNoStop;
    db_options_.hard_pending_compaction_bytes_limit = 0;
    // Each memtable takes this memory at once: sixteen bits a key if there is a key for every 100 bytes.
    db_options_.memtable_prefix_bloom_size_ratio = 0.02;
    db_options_.arena_block_size = kMemtableBlockBytes;
    db_options_.memtable_whole_key_filtering = true;
    // The applier's batches are in the order of the keys. With the hint, the skip list looks for a key from the place
    // of the key before, and goes up only as far as it must. Without, it starts at the top for nearly every key.
    db_options_.memtable_insert_with_hint_prefix_extractor = std::make_shared<OnePrefix>();
  }

  void set_table_options() {
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = cache_;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.whole_key_filtering = true;
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    table.data_block_hash_table_util_ratio = 0.75;
    table.block_size = 4096;
    table.format_version = 5;
    // Indexes and filters count against the block cache, but stay in it: a lookup must not wait for them.
    table.cache_index_and_filter_blocks = true;
    table.metadata_cache_options = {rocksdb::PinningTier::kAll, rocksdb::PinningTier::kAll, rocksdb::PinningTier::kAll};
    db_options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    db_options_.compression = best_compression();
    db_options_.level_compaction_dynamic_level_bytes = true;
    db_options_.enable_blob_files = true;
    db_options_.min_blob_size = kBlobBytesMin;
    db_options_.blob_compression_type = rocksdb::kNoCompression;
    db_options_.enable_blob_garbage_collection = true;
    db_options_.blob_garbage_collection_force_threshold = kBlobGarbageMax;
    db_options_.blob_cache = cache_;
  }

  absl::StatusOr<OpenDatabase> open_database(const std::string& dir, ShardId id, IfMissing if_missing);
  absl::Status create_database(const std::string& dir, ShardId id);

  const std::shared_ptr<rocksdb::Cache> cache_;
  Memtables memtables_;
  rocksdb::Options db_options_;
  const MachineClock* clock_ = nullptr;
  std::atomic<int> open_count_{0};
};

absl::Status Engine::create_database(const std::string& dir, ShardId id) {
  const std::string aside = absl::StrCat(dir, "/", files::kNewPrefix, shard_name(id));
  if (absl::Status status = remove_tree(aside); !status.ok()) return status;
  rocksdb::Options options = db_options_;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.info_log = std::make_shared<RocksdbInfoLog>(aside);
  rocksdb::DB* raw = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(options, aside, &raw);
  if (!status.ok()) return to_status(status, "creating a database", aside);
  const std::unique_ptr<rocksdb::DB> db(raw);
  status = put_meta(*db, {id, 0});
  if (status.ok()) status = db->Flush({});
  if (status.ok()) status = db->Close();
  if (!status.ok()) return to_status(status, "writing the first record", aside);
  if (absl::Status synced_dir = files::sync(aside); !synced_dir.ok()) return synced_dir;
  return rename_and_sync(aside, absl::StrCat(dir, "/", shard_name(id)), dir);
}

absl::StatusOr<OpenDatabase> Engine::open_database(const std::string& dir, ShardId id, IfMissing if_missing) {
  const std::string path = absl::StrCat(dir, "/", shard_name(id));
  std::error_code code;
  const bool exists = fs::exists(path, code);
  if (code) return io_error("looking for", path, code);
  if (!exists) {
    if (if_missing == IfMissing::kFail) {
      return absl::NotFoundError(absl::StrCat("no data of shard ", shard_name(id), " in ", dir));
    }
    if (absl::Status status = create_database(dir, id); !status.ok()) return status;
  }
  // Compactions leave blobs alone until the database's record about itself is read.
  auto expiring_blobs = std::make_shared<std::atomic<bool>>(false);
  rocksdb::Options options = db_options_;
  options.compaction_filter_factory = make_expiry_filter(*clock_, expiring_blobs);
  options.info_log = std::make_shared<RocksdbInfoLog>(path);
  auto background = std::make_shared<RocksdbBackground>();
  options.listeners.push_back(background);
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, path, &raw);
  if (!status.ok()) {
    if (absl::StrContains(status.ToString(), "LOCK") || absl::StrContains(status.ToString(), "lock ")) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is open already, here or in another process: ", status.ToString()));
    }
    return to_status(status, "opening the database", path);
  }
  std::unique_ptr<rocksdb::DB> db(raw);
  const auto meta = check_database(*db, path, id);
  if (!meta.ok()) return meta.status();
  expiring_blobs->store(meta->expiring_blobs);
  return OpenDatabase{std::move(db), *meta, std::move(expiring_blobs), std::move(background)};
}

absl::StatusOr<std::unique_ptr<ShardDb>> Engine::open_db(const std::string& dir, ShardId id, IfMissing if_missing) {
  auto opened = open_database(dir, id, if_missing);
  if (!opened.ok()) return opened.status();
  if (opened->meta.format < kMetaFormat) {
    // From now on a build that does not know this format refuses the database.
    opened->meta.format = kMetaFormat;
    const rocksdb::Status status = put_meta(*opened->db, opened->meta);
    if (!status.ok()) return to_status(status, "raising the format", opened->db->GetName());
  }
  // RocksDB has replayed its own log into memory. Later writes do not go to that log, so its content is flushed now.
  if (const rocksdb::Status status = opened->background->flush(*opened->db); !status.ok()) {
    return to_status(status, "flushing", opened->db->GetName());
  }
  absl::Status internal_rows;
  auto db = make_rocksdb_shard_db(*std::move(opened), open_count_, internal_rows, &memtables_);
  if (!internal_rows.ok()) return internal_rows;
  return db;
}

absl::Status Engine::destroy_shard(const std::string& dir, ShardId id) {
  const std::string path = absl::StrCat(dir, "/", shard_name(id));
  const std::string aside = absl::StrCat(dir, "/", files::kTrashPrefix, shard_name(id));
  if (absl::Status status = remove_tree(aside); !status.ok()) return status;
  std::error_code code;
  if (!fs::exists(path, code)) {
    return code ? io_error("looking for", path, code) : absl::OkStatus();
  }
  if (absl::Status status = rename_and_sync(path, aside, dir); !status.ok()) return status;
  return remove_tree(aside);
}

absl::StatusOr<std::vector<ShardId>> Engine::list_shards(const std::string& dir) {
  std::vector<ShardId> shards;
  absl::Status listed = files::visit_names(dir, [&shards](const std::string& name) {
    if (const auto id = parse_shard_name(name)) shards.push_back(*id);
  });
  if (!listed.ok()) return listed;
  std::sort(shards.begin(), shards.end());
  return shards;
}

}  // namespace

std::unique_ptr<RocksdbEngine> make_rocksdb_engine_on(const RocksdbOptions& options, rocksdb::Env* env) {
  return std::make_unique<Engine>(options, env);
}

}  // namespace internal

std::unique_ptr<RocksdbEngine> make_rocksdb_engine(const RocksdbOptions& options) {
  return internal::make_rocksdb_engine_on(options, rocksdb::Env::Default());
}

}  // namespace skua::kv
