#include "ycsb/bindings/rocksdb.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "rpc/base/bytes.h"
#include "ycsb/bindings/rows.h"
#include "ycsb/core/text.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

constexpr uint64_t kBytesMax = uint64_t{1} << 44;
/// Locks that updates share out among themselves by key.
constexpr size_t kLockCount = 1024;

struct RocksdbOptions {
  std::string directory;
  bool wal = true;
  bool sync = false;
  uint64_t block_cache_bytes = 0;
  uint64_t memtable_bytes = 0;
  uint64_t bloom_bits = 0;
  uint64_t background_jobs = 0;
  std::string compression;
};

rocksdb::Slice slice_of(std::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

std::string_view view_of(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

/// What all sessions share.
struct Store {
  const Schema& schema;
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::WriteOptions write_options;
  std::array<std::mutex, kLockCount> locks;

  explicit Store(const Schema& its_schema) : schema(its_schema) {}
};

class RocksdbSession final : public BindingSession {
 public:
  RocksdbSession(Store& store, const SessionOptions& session)
      : store_(store), rows_(store.schema), return_fields_(session.return_fields) {}

  void submit(const Operation& op, CompletionFn done) override { done(execute(op)); }

  absl::Status poll(DurationNs timeout) override {
    if (timeout > 0) {
      const timespec wait = {timeout / kSecond, timeout % kSecond};
      nanosleep(&wait, nullptr);
    }
    return absl::OkStatus();
  }

 private:
  OpResult execute(const Operation& op);
  OpResult read(const Operation& op);
  OpResult update(const Operation& op);
  OpResult scan(const Operation& op);
  OpResult put(const Operation& op) {
    return result_of(store_.db->Put(store_.write_options, slice_of(op.key), slice_of(rows_.encoded())));
  }
  OpResult result_of(const rocksdb::Status& status);

  Store& store_;
  RowCoder rows_;
  const bool return_fields_;
  rocksdb::PinnableSlice value_;
  std::string message_;
};

OpResult RocksdbSession::result_of(const rocksdb::Status& status) {
  OpResult result;
  if (status.ok()) return result;
  result.status = status.IsNotFound() ? Status::kNotFound : Status::kError;
  if (!status.IsNotFound()) result.message = message_ = status.ToString();
  return result;
}

OpResult RocksdbSession::execute(const Operation& op) {
  switch (op.kind) {
    case OpKind::kRead: return read(op);
    case OpKind::kUpdate: return update(op);
    case OpKind::kInsert: rows_.encode(op); return put(op);
    case OpKind::kDelete: return result_of(store_.db->Delete(store_.write_options, slice_of(op.key)));
    case OpKind::kScan: return scan(op);
    case OpKind::kReadModifyWrite: break;  // the driver never submits one
  }
  return OpResult(Status::kNotImplemented);
}

OpResult RocksdbSession::read(const Operation& op) {
  value_.Reset();
  OpResult result =
      result_of(store_.db->Get(rocksdb::ReadOptions(), store_.db->DefaultColumnFamily(), slice_of(op.key), &value_));
  if (!is_ok(result.status)) return result;
  if (!rows_.decode(view_of(value_))) return RowCoder::not_a_row();
  rows_.pick(op);
  if (return_fields_) result.fields = rows_.fields();
  return result;
}

OpResult RocksdbSession::update(const Operation& op) {
  // Also if all fields are written: a record that is not there must not come to be.
  const std::lock_guard lock(store_.locks[std::hash<std::string_view>()(op.key) % kLockCount]);
  value_.Reset();
  OpResult result =
      result_of(store_.db->Get(rocksdb::ReadOptions(), store_.db->DefaultColumnFamily(), slice_of(op.key), &value_));
  if (!is_ok(result.status)) return result;
  if (!rows_.decode(view_of(value_))) return RowCoder::not_a_row();
  rows_.encode_merged(op);
  return put(op);
}

OpResult RocksdbSession::scan(const Operation& op) {
  const std::unique_ptr<rocksdb::Iterator> at(store_.db->NewIterator(rocksdb::ReadOptions()));
  uint64_t rows = 0;
  for (at->Seek(slice_of(op.key)); at->Valid() && rows < op.scan_length; at->Next()) {
    if (!rows_.decode(view_of(at->value()))) return RowCoder::not_a_row();
    ++rows;
  }
  OpResult result = result_of(at->status());
  result.row_count = rows;
  return result;
}

class RocksdbBinding final : public Binding {
 public:
  RocksdbBinding(const BindingContext& context, RocksdbOptions options)
      : options_(std::move(options)), store_(context.schema) {}

  absl::Status open();

  absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& session) override {
    return std::make_unique<RocksdbSession>(store_, session);
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    return {{"Store", "rocksdb in " + options_.directory},
            {"Store version", rocksdb::GetRocksVersionAsString()},
            {"Durability", !options_.wal   ? "none (no WAL)"
                           : options_.sync ? "sync"
                                           : "WAL, not synced"},
            {"Block cache (bytes)", std::to_string(options_.block_cache_bytes)},
            {"Compression", options_.compression}};
  }

 private:
  const RocksdbOptions options_;
  Store store_;
};

constexpr std::array<std::pair<std::string_view, rocksdb::CompressionType>, 4> kCompressions = {
    {{"none", rocksdb::kNoCompression},
     {"snappy", rocksdb::kSnappyCompression},
     {"lz4", rocksdb::kLZ4Compression},
     {"zstd", rocksdb::kZSTD}}};

/// A mistyped directory must not become a database among other files, still less inside a storage node's.
absl::Status check_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  const std::string name = concat("rocksdb.dir=", directory, ": ");
  std::error_code error;
  for (fs::path at = fs::weakly_canonical(directory, error); !at.empty(); at = at.parent_path()) {
    if (fs::exists(at / "identity.toml", error)) {
      return invalid_argument(
          name, at.native(),
          " is the data directory of a Skua program, whose data a run would damage: ", "give a directory of its own");
    }
    if (at == at.parent_path()) break;
  }
  if (fs::exists(directory, error) && !fs::is_directory(directory, error))
    return invalid_argument(name, "is no directory");
  fs::create_directories(directory, error);
  if (error) return invalid_argument(name, "cannot be made: ", error.message());
  if (fs::exists(fs::path(directory) / "CURRENT", error)) return absl::OkStatus();
  for (fs::directory_iterator file(directory, error), end; !error && file != end; file.increment(error)) {
    const std::string entry = file->path().filename();
    // What RocksDB leaves of a database that it could not make.
    if (entry.starts_with("LOCK") || entry.starts_with("LOG")) continue;
    return invalid_argument(name, "holds other files (", entry, ") and no RocksDB: give a new or an empty directory");
  }
  if (error) return invalid_argument(name, "cannot be read: ", error.message());
  return absl::OkStatus();
}

absl::Status RocksdbBinding::open() {
  const auto* const compression = std::find_if(kCompressions.begin(), kCompressions.end(),
                                               [&](const auto& known) { return known.first == options_.compression; });
  const std::vector<rocksdb::CompressionType> built_in = rocksdb::GetSupportedCompressions();
  if (std::find(built_in.begin(), built_in.end(), compression->second) == built_in.end())
    return invalid_argument("rocksdb.compression=", options_.compression, ": this RocksDB is built without it");
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = options_.block_cache_bytes == 0;
  if (!table.no_block_cache) table.block_cache = rocksdb::NewLRUCache(options_.block_cache_bytes);
  if (options_.bloom_bits != 0)
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(static_cast<double>(options_.bloom_bits)));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.IncreaseParallelism(static_cast<int>(options_.background_jobs));
  options.compression = compression->second;
  options.write_buffer_size = options_.memtable_bytes;
  options.level_compaction_dynamic_level_bytes = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  store_.write_options.sync = options_.sync;
  store_.write_options.disableWAL = !options_.wal;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(options, options_.directory, &db);
  store_.db.reset(db);
  if (opened.ok()) return absl::OkStatus();
  const std::string why = opened.ToString();
  return absl::UnavailableError(
      concat("cannot open the RocksDB in ", options_.directory, ": ", why,
             why.find("lock") == std::string::npos ? " (-p rocksdb.dir)" : "; does another process have it open?"));
}

absl::StatusOr<std::unique_ptr<Binding>> make_rocksdb(const BindingContext& context) {
  PropertyReader in(context.properties);
  RocksdbOptions options;
  options.directory = in.text("rocksdb.dir", "");
  if (options.directory.empty()) in.fail("rocksdb.dir is needed: the directory of the database (-p rocksdb.dir=DIR)");
  options.wal = in.flag("rocksdb.wal", true);
  options.sync = in.flag("rocksdb.sync", false);
  if (options.sync && !options.wal) in.fail("rocksdb.sync=true needs the log that rocksdb.wal=false leaves out");
  options.block_cache_bytes = in.whole("rocksdb.block_cache_bytes", uint64_t{256} << 20, 0, kBytesMax);
  options.memtable_bytes = in.whole("rocksdb.memtable_bytes", uint64_t{64} << 20, uint64_t{64} << 10, kBytesMax);
  options.bloom_bits = in.whole("rocksdb.bloom_bits", 10, 0, 100);
  options.background_jobs = in.whole("rocksdb.background_jobs", 2, 1, kThreadsMax);
  options.compression =
      kCompressions.at(in.choice("rocksdb.compression", "none", {"none", "snappy", "lz4", "zstd"})).first;
  if (!in.status().ok()) return in.status();
  if (absl::Status status = check_directory(options.directory); !status.ok()) return status;
  auto binding = std::make_unique<RocksdbBinding>(context, std::move(options));
  if (absl::Status status = binding->open(); !status.ok()) return status;
  return binding;
}

constexpr std::array<std::array<std::string_view, 3>, 8> kProperties = {{
    {"rocksdb.dir", "", "directory of the database; made if missing"},
    {"rocksdb.sync", "false", "a write has reached the disk (fsync of the log) before it is acknowledged"},
    {"rocksdb.wal", "true", "writes are logged; without, a crash loses those since the last flush"},
    {"rocksdb.block_cache_bytes", "268435456", "memory for blocks read; 0: none"},
    {"rocksdb.memtable_bytes", "67108864", "memory for writes before they are flushed"},
    {"rocksdb.bloom_bits", "10", "bits per key in Bloom filters; 0: none"},
    {"rocksdb.background_jobs", "2", "flushes and compactions at a time"},
    {"rocksdb.compression", "none", "none, snappy, lz4 or zstd"},
}};

}  // namespace

BindingEntry rocksdb_binding() {
  return {.name = "rocksdb",
          .java_class = "RocksDBClient",
          .help = "RocksDB in the driver's process: a row per record",
          .properties = kProperties,
          .make = &make_rocksdb};
}

}  // namespace skua::ycsb
