// One shard in one RocksDB database, without RocksDB's log. Keys are stored as they are. A stored value is the version,
// then the expiry and the mark if there are any, then the bytes. The record about the shard itself, with the applied
// index, lies at the empty key and is in every batch (rocksdb_internal.h). So whatever prefix of the batches a crash
// leaves, the database knows its applied index.
#include <rocksdb/experimental.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/memory/prefetch.h"
#include "kvstore/storage/rocksdb_background.h"
#include "kvstore/storage/rocksdb_internal.h"
#include "kvstore/storage/rocksdb_memtables.h"
#include "kvstore/types/expiry.h"

namespace skua::kv::internal {
namespace {

/// A batch whose buffer grew above this size is replaced after its use.
constexpr size_t kBatchBytesKept = size_t{4} << 20;

/// This much must be free on the disk, besides room for what is in memory, before a database goes on after its disk was
/// full.
constexpr uint64_t kRoomBytesMin = uint64_t{2} << 20;

/// A checkpoint makes no flush of its own, because that would wait inside RocksDB (rocksdb_background.h). What is
/// written after our flush need not be in it.
constexpr uint64_t kNoFlush = UINT64_MAX;

// RocksDB's defaults of level0_file_num_compaction_trigger and blob_garbage_collection_age_cutoff.
constexpr std::string_view kLevel0Files = "4";
constexpr std::string_view kBlobAgeCutoff = "0.25";
/// As many as RocksDB has levels.
constexpr int kRoomRounds = 7;

/// While a table file is written, this many effects ahead are fetched into the cache.
constexpr size_t kPrefetchEffects = 8;
constexpr size_t kPrefetchValueBytes = 256;

void prefetch(const AppliedEffect& effect) {
  __builtin_prefetch(effect.key.data());
  if (effect.value) prefetch_bytes(*effect.value, kPrefetchValueBytes);
}

/// RocksDB counts the steps of each thread, comparisons of keys for example. Nobody reads the counters, and they cost a
/// write a tenth of its instructions.
void count_nothing() {
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
}

void release_slice(void* slice) {
  delete static_cast<rocksdb::PinnableSlice*>(slice);
}

class RocksdbShardDb final : public ShardDb {
 public:
  RocksdbShardDb(OpenDatabase opened, std::atomic<int>& open_count, Memtables* memtables)
      : background_(std::move(opened.background)),
        db_(std::move(opened.db)),
        id_(opened.meta.id),
        open_count_(open_count),
        memtables_(memtables),
        expiring_blobs_(std::move(opened.expiring_blobs)),
        format_(opened.meta.format),
        applied_index_(opened.meta.last_index) {
    write_options_.disableWAL = true;
    if (memtables_ != nullptr) memtables_->add(*db_, *background_);
    open_count_.fetch_add(1);
  }

  ~RocksdbShardDb() override {
    if (memtables_ != nullptr) memtables_->remove(*db_);
    // What cannot be flushed is in the worker's log.
    (void)background_->flush(*db_);
    (void)db_->Close();
    open_count_.fetch_sub(1);
  }

  [[nodiscard]] ShardId id() const override { return id_; }

  [[nodiscard]] absl::Status apply(std::span<const AppliedEffect> effects, uint64_t applied_index) override {
    count_nothing();
    batch_.Clear();
    rocksdb::Status status;
    note_features(effects);
    for (size_t i = 0; status.ok() && i < effects.size(); ++i) {
      if (i + kPrefetchEffects < effects.size()) prefetch(effects[i + kPrefetchEffects]);
      status = add_to_batch(effects[i]);
    }
    if (status.ok()) status = batch_.Put(to_slice(kMetaKey), encode_meta(meta(applied_index)));
    if (status.ok()) {
      status = with_room([&] { return db_->Write(write_options_, &batch_); });
    }
    if (batch_.GetDataSize() > kBatchBytesKept) batch_ = rocksdb::WriteBatch();
    if (!status.ok()) return to_status(status, "applying writes", db_->GetName());
    applied_index_.store(applied_index, std::memory_order_release);
    if (memtables_ != nullptr) memtables_->make_room();
    return absl::OkStatus();
  }

  [[nodiscard]] absl::Status ingest(std::span<const AppliedEffect> sorted_effects, uint64_t applied_index) override {
    // A memtable, if there is one, has the shard's own record, and so overlaps the table file. RocksDB would flush it
    // and wait for that inside (rocksdb_background.h).
    if (auto flushed = flush(); !flushed.ok()) return flushed.status();
    const std::string path = db_->GetName() + "/ingest.sst";
    (void)db_->GetEnv()->DeleteFile(path);  // a leftover of a crash
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db_->GetOptions());
    rocksdb::Status status = writer.Open(path);
    note_features(sorted_effects);
    // The empty key sorts first.
    if (status.ok()) status = writer.Put(to_slice(kMetaKey), encode_meta(meta(applied_index)));
    std::string value;
    for (size_t i = 0; status.ok() && i < sorted_effects.size(); ++i) {
      const AppliedEffect& effect = sorted_effects[i];
      if (i + kPrefetchEffects < sorted_effects.size()) prefetch(sorted_effects[i + kPrefetchEffects]);
      if (!effect.value) {
        status = writer.Delete(to_slice(effect.key));
        continue;
      }
      std::array<char, kValuePrefixBytesMax> prefix;
      value.assign(encode_value_prefix(effect.version, effect.expires_at, effect.mark, prefix));
      value.append(as_string_view(*effect.value));
      status = writer.Put(to_slice(effect.key), value);
    }
    if (status.ok()) status = writer.Finish();
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    options.write_global_seqno = false;  // else RocksDB writes and syncs the file once more, for versions before 5.16
    if (status.ok()) status = db_->IngestExternalFile({path}, options);
    if (!status.ok()) return to_status(status, "ingesting writes", db_->GetName());
    applied_index_.store(applied_index, std::memory_order_release);
    return absl::OkStatus();
  }

  [[nodiscard]] absl::StatusOr<uint64_t> flush() override {
    const uint64_t index = applied_index();
    const rocksdb::Status status = with_room([&] { return background_->flush(*db_); });
    if (!status.ok()) return to_status(status, "flushing", db_->GetName());
    return index;
  }

  /// RocksDB compacts when there is more data. Deletes are few bytes, so without this a full disk would stay full.
  /// First the deleted rows go, with the first tables that are flushed; then blob files of which little is left, if
  /// there is room to write that little anew.
  void set_short_of_room(bool is_short) override {
    set_option("level0_file_num_compaction_trigger", is_short ? std::string_view("1") : kLevel0Files, level0_files_);
    const bool is_garbage = is_short && blobs_are_garbage();
    set_option("blob_garbage_collection_age_cutoff", is_garbage ? std::string_view("1") : kBlobAgeCutoff, blob_age_);
    // The levels below the first are compacted if they are asked to: each time, deletes get one level further.
    if (!is_short || room_rounds_left_ == 0) return;
    --room_rounds_left_;
    (void)rocksdb::experimental::SuggestCompactRange(db_.get(), nullptr, nullptr);
  }

  [[nodiscard]] int room_rounds_left() const override { return room_rounds_left_; }

  [[nodiscard]] absl::Status checkpoint(const std::string& path) override {
    if (auto flushed = flush(); !flushed.ok()) return flushed.status();
    rocksdb::Checkpoint* raw = nullptr;
    rocksdb::Status status = rocksdb::Checkpoint::Create(db_.get(), &raw);
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    if (status.ok()) status = checkpoint->CreateCheckpoint(path, kNoFlush);
    return to_status(status, "making a checkpoint", path);
  }

  [[nodiscard]] uint64_t applied_index() const override { return applied_index_.load(std::memory_order_acquire); }

  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override {
    count_nothing();
    // The empty key holds the shard's own record; keys above the limit are the engine's own.
    if (key.empty() || key.size() > kKeyBytesMax) return absl::NotFoundError("no such key");
    auto stored = std::make_unique<rocksdb::PinnableSlice>();
    const rocksdb::Status status = db_->Get(read_options_, db_->DefaultColumnFamily(), to_slice(key), stored.get());
    if (status.IsNotFound()) return absl::NotFoundError("no such key");
    if (!status.ok()) return to_status(status, "reading a key", db_->GetName());
    const auto versioned = split_version(*stored);
    if (!versioned) return truncated_value();
    out = PinnedValue(versioned->value, versioned->version, stored.release(), &release_slice, versioned->expires_at,
                      versioned->mark);
    return absl::OkStatus();
  }

  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const KeyRange& range, RowVisitor visit) override {
    count_nothing();
    rocksdb::ReadOptions options;
    const rocksdb::Slice end = to_slice(range.end);
    if (!range.end.empty()) options.iterate_upper_bound = &end;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
    it->SeekToFirst();
    if (!it->Valid()) return iterator_failed(*it);
    const auto meta = decode_meta(to_view(it->value()));
    if (!meta.ok()) return meta.status();
    if (range.start.empty()) {
      it->Next();  // skip the shard's own record
    } else {
      it->Seek(to_slice(range.start));
      if (range.start_exclusive && it->Valid() && to_view(it->key()) == range.start) it->Next();
    }
    ScanEnd ended{.has_more = false, .index = meta->last_index};
    for (size_t row_count = 1; it->Valid(); it->Next(), ++row_count) {
      if (row_count % kRowsBetweenStops == 0 && range.stop.has_value() && (*range.stop)()) {
        return absl::DeadlineExceededError("the scan was stopped");
      }
      if (is_internal_key(it->key())) {
        it->Seek(internal_keys_end());
        if (!it->Valid()) break;
      }
      const auto row = split_version(it->value());
      if (!row) return truncated_value();
      if (is_expired(row->expires_at, range.now_ms)) continue;
      if (!visit({to_view(it->key()), row->version, row->value, row->mark})) {
        ended.has_more = true;
        return ended;
      }
    }
    if (!it->status().ok()) return iterator_failed(*it);
    return ended;
  }

  [[nodiscard]] std::vector<InternalRow> take_internal_rows() override { return std::exchange(internal_rows_, {}); }

  void give_back_internal_rows(std::vector<InternalRow>&& rows) override { internal_rows_ = std::move(rows); }

  /// Reads the engine's own rows. Called once, before the database is handed out.
  [[nodiscard]] absl::Status read_internal_rows() {
    const std::string begin = internal_keys_begin();
    const std::string end = internal_keys_end();
    rocksdb::ReadOptions options;
    const rocksdb::Slice bound = to_slice(end);
    options.iterate_upper_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
    for (it->Seek(begin); it->Valid(); it->Next()) {
      if (!is_internal_key(it->key())) continue;  // a user's key of zeros only
      const auto row = split_version(it->value());
      if (!row) return truncated_value();
      internal_rows_.push_back(
          {std::string(to_view(it->key())), std::string(as_string_view(row->value)), row->version});
    }
    return to_status(it->status(), "reading the engine's own rows", db_->GetName());
  }

  [[nodiscard]] StoreStats stats() const override {
    const uint64_t keys = property(rocksdb::DB::Properties::kEstimateNumKeys);
    return {.last_index = applied_index(),
            .keys_estimate = keys == 0 ? 0 : keys - 1,  // without the shard's own record
            .disk_bytes = property(rocksdb::DB::Properties::kTotalSstFilesSize) +
                          property(rocksdb::DB::Properties::kTotalBlobFileSize)};
  }

 private:
  [[nodiscard]] uint64_t property(const std::string& name) const { return property_of(*db_, name); }

  /// `now`: what it is set to. An option that the disk has no room for is set the next time.
  void set_option(const char* name, std::string_view value, std::string_view& now) {
    if (now != value && db_->SetOptions({{name, std::string(value)}}).ok()) now = value;
  }

  /// More than half of all blobs are garbage, and the disk has room for the others once more.
  [[nodiscard]] bool blobs_are_garbage() const {
    const uint64_t all = property(rocksdb::DB::Properties::kTotalBlobFileSize);
    const uint64_t garbage = property(rocksdb::DB::Properties::kLiveBlobFileGarbageSize);
    uint64_t free_bytes = 0;
    if (!db_->GetEnv()->GetFreeSpace(db_->GetName(), &free_bytes).ok()) return false;
    return garbage > all / 2 && free_bytes > kRoomBytesMin + (all - garbage);
  }

  /// Runs `operation`. If the disk was full before, first checks that there is room, and resumes the database.
  /// Afterwards clears the error of a compaction that found no room.
  template <typename Operation>
  rocksdb::Status with_room(const Operation& operation) {
    if (rocksdb::Status status = background_->why(); !status.ok()) {
      if (!is_shortage(status) || !has_room()) return status;
      if (status = background_->resume(*db_); !status.ok()) return status;
    }
    const rocksdb::Status status = operation();
    if (status.ok() && background_->take_failed_compaction()) (void)db_->Resume();
    return status;
  }

  /// True if the disk has room for twice what is in memory, and a reserve.
  [[nodiscard]] bool has_room() const {
    const uint64_t in_memory = property(rocksdb::DB::Properties::kCurSizeAllMemTables);
    uint64_t free_bytes = 0;
    if (!db_->GetEnv()->GetFreeSpace(db_->GetName(), &free_bytes).ok()) return true;
    return free_bytes >= kRoomBytesMin + 2 * in_memory;
  }

  /// Sets expiring_blobs_ if one of `effects` needs it. It is never cleared, because values that expire in blob files
  /// are not counted. Raises format_ at the first mark: builds that know no marks refuse the database from then on. Its
  /// record about itself, with both, is in the same batch.
  void note_features(std::span<const AppliedEffect> effects) {
    const auto expiring_blob = [](const AppliedEffect& effect) {
      return effect.expires_at != 0 && effect.value && effect.value->size() + kValuePrefixBytesMax >= kBlobBytesMin;
    };
    const auto has_mark = [](const AppliedEffect& effect) { return effect.value && !effect.mark.empty(); };
    if (!expiring_blobs_->load() && std::ranges::any_of(effects, expiring_blob)) expiring_blobs_->store(true);
    if (format_ != kMetaFormatWithMarks && std::ranges::any_of(effects, has_mark)) format_ = kMetaFormatWithMarks;
  }

  [[nodiscard]] Meta meta(uint64_t applied_index) const {
    return {.id = id_, .last_index = applied_index, .format = format_, .expiring_blobs = expiring_blobs_->load()};
  }

  rocksdb::Status add_to_batch(const AppliedEffect& effect) {
    const rocksdb::Slice key = to_slice(effect.key);
    if (!effect.value) {
      room_rounds_left_ = kRoomRounds;
      return batch_.Delete(key);
    }
    std::array<char, kValuePrefixBytesMax> prefix;
    const std::array<rocksdb::Slice, 2> value = {
        to_slice(encode_value_prefix(effect.version, effect.expires_at, effect.mark, prefix)),
        to_slice(as_string_view(*effect.value))};
    return batch_.Put(rocksdb::SliceParts(&key, 1), rocksdb::SliceParts(value.data(), 2));
  }

  [[nodiscard]] absl::Status truncated_value() const {
    return absl::DataLossError(
        absl::StrCat("a value in ", db_->GetName(), " is shorter than its version, or has a mark that is none"));
  }

  [[nodiscard]] absl::Status iterator_failed(const rocksdb::Iterator& it) const {
    if (!it.status().ok()) return to_status(it.status(), "scanning", db_->GetName());
    return absl::DataLossError(absl::StrCat(db_->GetName(), " lacks the shard's own record"));
  }

  const std::shared_ptr<RocksdbBackground> background_;
  const std::unique_ptr<rocksdb::DB> db_;
  const ShardId id_;
  std::atomic<int>& open_count_;
  Memtables* const memtables_;
  const ExpiringBlobs expiring_blobs_;
  const rocksdb::ReadOptions read_options_;
  rocksdb::WriteOptions write_options_;
  rocksdb::WriteBatch batch_;  // used by apply()
  uint32_t format_;            // used by apply() and ingest()
  int room_rounds_left_ = 0;
  std::string_view level0_files_ = kLevel0Files;
  std::string_view blob_age_ = kBlobAgeCutoff;
  std::vector<InternalRow> internal_rows_;
  std::atomic<uint64_t> applied_index_;
};

}  // namespace

std::unique_ptr<ShardDb> make_rocksdb_shard_db(OpenDatabase opened, std::atomic<int>& open_count,
                                               absl::Status& internal_rows, Memtables* memtables) {
  auto shard = std::make_unique<RocksdbShardDb>(std::move(opened), open_count, memtables);
  internal_rows = shard->read_internal_rows();
  return shard;
}

}  // namespace skua::kv::internal
