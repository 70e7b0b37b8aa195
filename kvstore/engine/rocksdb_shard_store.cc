// One shard in one RocksDB database. Keys are stored as they are; a value is its version (u64 little endian) and then
// its bytes; the record about the shard itself is at the empty key (rocksdb_internal.h).
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/engine/group_evaluator.h"
#include "kvstore/engine/rocksdb_internal.h"
#include "rpc/base/check.h"

namespace skua::kv::internal {
namespace {

/// A batch whose buffer grew above this is replaced after its group.
constexpr size_t kBatchBytesKept = size_t{1} << 20;

void release_slice(void* slice) {
  delete static_cast<rocksdb::PinnableSlice*>(slice);
}

class RocksdbShardStore final : public ShardStore {
 public:
  RocksdbShardStore(std::unique_ptr<rocksdb::DB> db, const Meta& meta, SharedByStores& shared)
      : db_(std::move(db)),
        id_(meta.id),
        shared_(shared),
        cache_(shared.read_cache),
        store_number_(shared.next_store_number.fetch_add(1)),
        last_index_(meta.last_index) {
    memory_only_.read_tier = rocksdb::kBlockCacheTier;
    write_options_.sync = shared.sync_writes;
    shared_.open_stores.fetch_add(1);
  }

  ~RocksdbShardStore() override {
    // Close reports a failed flush of the info log and the like; every acknowledged write is synced by now.
    (void)db_->Close();
    shared_.open_stores.fetch_sub(1);
  }

  [[nodiscard]] ShardId id() const override { return id_; }

  [[nodiscard]] ReadOutcome try_get(std::string_view key, PinnedValue& out) override {
    if (key.empty()) return ReadOutcome::kNotFound;  // the empty key holds the shard's own record
    const ReadCache::Key cache_key(store_number_, key);
    ReadCache::Ticket ticket;
    switch (cache_.try_lookup(cache_key, out, ticket)) {
      case ReadCache::Found::kHit: return ReadOutcome::kHit;
      case ReadCache::Found::kBusy: return ReadOutcome::kWouldBlock;
      case ReadCache::Found::kMiss: break;
    }
    rocksdb::PinnableSlice stored;
    const rocksdb::Status status = db_->Get(memory_only_, db_->DefaultColumnFamily(), to_slice(key), &stored);
    if (status.IsNotFound()) return ReadOutcome::kNotFound;
    if (!status.ok() || !serve(cache_key, stored, ticket, out)) return ReadOutcome::kWouldBlock;
    return ReadOutcome::kHit;
  }

  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override {
    if (key.empty()) return absl::NotFoundError("no such key");
    const ReadCache::Key cache_key(store_number_, key);
    ReadCache::Ticket ticket;
    if (cache_.lookup(cache_key, out, ticket)) return absl::OkStatus();
    rocksdb::PinnableSlice stored;
    const rocksdb::Status status = db_->Get(anywhere_, db_->DefaultColumnFamily(), to_slice(key), &stored);
    if (status.IsNotFound()) return absl::NotFoundError("no such key");
    if (!status.ok()) return to_status(status, "reading a key", db_->GetName());
    if (!serve(cache_key, stored, ticket, out)) return truncated_value();
    return absl::OkStatus();
  }

  [[nodiscard]] absl::Status apply(std::span<const Mutation> group, std::span<MutationResult> results) override {
    SKUA_CHECK(results.size() == group.size(), "give a result for each mutation");
    if (read_only_.load(std::memory_order_acquire)) {
      for (MutationResult& result : results) result = {KvStatus::kShardReadOnly, 0};
      return health();
    }
    const uint64_t old_index = last_index_.load(std::memory_order_relaxed);
    const uint64_t new_index = evaluator_.evaluate(
        group, old_index,
        [this](std::string_view key, GroupEvaluator::Current& current) { return read_current(key, current); }, results);
    current_pin_.reset();
    if (new_index == old_index) return absl::OkStatus();

    const rocksdb::Status status = write_effects(new_index);
    if (status.ok()) {
      // After the cache has all of the group: a scan that sees this index may go on (see scan).
      last_index_.store(new_index, std::memory_order_release);
      return absl::OkStatus();
    }
    for (MutationResult& result : results) result = {KvStatus::kStorageFailed, 0};
    become_read_only(to_status(status, "writing a group of mutations", db_->GetName()));
    return health();
  }

  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const ScanRange& range, RowVisitor visit) override {
    rocksdb::ReadOptions options;
    const rocksdb::Slice end = to_slice(range.end);
    if (!range.end.empty()) options.iterate_upper_bound = &end;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));

    it->SeekToFirst();
    if (!it->Valid()) return iterator_failed(*it);
    const auto meta = decode_meta(to_view(it->value()));
    if (!meta.ok()) return meta.status();
    // RocksDB shows a group a moment before the read cache does. Without this wait a client could see a write here and,
    // in a GET that it sends after, the value before it.
    while (last_index_.load(std::memory_order_acquire) < meta->last_index) {
      std::this_thread::yield();
    }

    if (range.start.empty()) {
      it->Next();  // past the shard's own record
    } else {
      it->Seek(to_slice(range.start));
      if (range.start_exclusive && it->Valid() && to_view(it->key()) == range.start) it->Next();
    }
    ScanEnd ended{.has_more = false, .index = meta->last_index};
    for (; it->Valid(); it->Next()) {
      const auto row = split_version(it->value());
      if (!row) return truncated_value();
      if (!visit({to_view(it->key()), row->version, row->value})) {
        ended.has_more = true;
        return ended;
      }
    }
    if (!it->status().ok()) return iterator_failed(*it);
    return ended;
  }

  [[nodiscard]] uint64_t last_index() const override { return last_index_.load(std::memory_order_acquire); }

  [[nodiscard]] absl::Status health() const override {
    if (!read_only_.load(std::memory_order_acquire)) return absl::OkStatus();
    const std::lock_guard lock(health_mutex_);
    return health_;
  }

  [[nodiscard]] StoreStats stats() const override {
    StoreStats stats{.last_index = last_index()};
    (void)db_->GetIntProperty(rocksdb::DB::Properties::kEstimateNumKeys, &stats.keys_estimate);
    if (stats.keys_estimate > 0) --stats.keys_estimate;  // the shard's own record
    (void)db_->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &stats.disk_bytes);
    uint64_t blob_bytes = 0;
    (void)db_->GetIntProperty(rocksdb::DB::Properties::kTotalBlobFileSize, &blob_bytes);
    stats.disk_bytes += blob_bytes;
    return stats;
  }

 private:
  /// Hands a stored value out: small ones through the cache, large ones pinned where RocksDB has them.
  bool serve(const ReadCache::Key& key, rocksdb::PinnableSlice& stored, const ReadCache::Ticket& ticket,
             PinnedValue& out) {
    const auto versioned = split_version(stored);
    if (!versioned) return false;
    if (versioned->value.size() <= kReadCacheValueBytesMax) {
      cache_.insert(key, versioned->version, versioned->value, ticket, out);
      return true;
    }
    auto pinned = std::make_unique<rocksdb::PinnableSlice>(std::move(stored));
    const auto again = split_version(*pinned);
    SKUA_CHECK(again.has_value(), "a moved slice keeps its bytes");
    out = PinnedValue(again->value, again->version, pinned.release(), &release_slice);
    return true;
  }

  /// A key's state before the group, for the evaluator; its value is pinned until the next call.
  absl::Status read_current(std::string_view key, GroupEvaluator::Current& current) {
    absl::Status status = get(key, current_pin_);
    if (absl::IsNotFound(status)) return absl::OkStatus();
    if (!status.ok()) return status;
    current = {current_pin_.version(), current_pin_.bytes()};
    return absl::OkStatus();
  }

  /// Writes the evaluator's effects and the new index as one batch, and brings the read cache along.
  rocksdb::Status write_effects(uint64_t new_index) {
    if (batch_.GetDataSize() > kBatchBytesKept) batch_ = rocksdb::WriteBatch();
    batch_.Clear();
    rocksdb::Status status;
    for (const GroupEvaluator::Effect& effect : evaluator_.effects()) {
      if (effect.superseded) continue;
      if (status = add_to_batch(effect); !status.ok()) return status;
    }
    status = batch_.Put(to_slice(kMetaKey), encode_meta({id_, new_index}));
    if (!status.ok()) return status;

    for_each_final([this](const ReadCache::Key& key, const GroupEvaluator::Effect&) { cache_.begin_write(key); });
    status = db_->Write(write_options_, &batch_);
    if (shared_.between_writes) shared_.between_writes();
    for_each_final([&](const ReadCache::Key& key, const GroupEvaluator::Effect& effect) {
      cache_.end_write(key, effect.version, status.ok() ? effect.value : std::nullopt);
    });
    return status;
  }

  template <typename Visit>
  void for_each_final(Visit visit) {
    for (const GroupEvaluator::Effect& effect : evaluator_.effects()) {
      if (!effect.superseded) visit(ReadCache::Key(store_number_, effect.key), effect);
    }
  }

  rocksdb::Status add_to_batch(const GroupEvaluator::Effect& effect) {
    const rocksdb::Slice key = to_slice(effect.key);
    if (!effect.value) return batch_.Delete(key);
    std::array<std::byte, kVersionPrefixBytes> version;
    store_le(version.data(), effect.version);
    const std::array<rocksdb::Slice, 2> value = {to_slice(as_string_view(version)),
                                                 to_slice(as_string_view(*effect.value))};
    return batch_.Put(rocksdb::SliceParts(&key, 1), rocksdb::SliceParts(value.data(), 2));
  }

  void become_read_only(const absl::Status& cause) {
    const std::lock_guard lock(health_mutex_);
    health_ = absl::Status(cause.code(), absl::StrCat("shard ", id_.table_id, "-", id_.shard,
                                                      " refuses writes until it is opened again: ", cause.message()));
    read_only_.store(true, std::memory_order_release);
  }

  [[nodiscard]] absl::Status truncated_value() const {
    return absl::DataLossError(absl::StrCat("a value in ", db_->GetName(), " is shorter than its version"));
  }

  [[nodiscard]] absl::Status iterator_failed(const rocksdb::Iterator& it) const {
    if (!it.status().ok()) return to_status(it.status(), "scanning", db_->GetName());
    return absl::DataLossError(absl::StrCat(db_->GetName(), " lacks the shard's own record"));
  }

  // Constant after construction.
  const std::unique_ptr<rocksdb::DB> db_;
  const ShardId id_;
  SharedByStores& shared_;
  ReadCache& cache_;
  const uint32_t store_number_;  // tells this store's keys apart in the cache
  rocksdb::ReadOptions memory_only_;
  const rocksdb::ReadOptions anywhere_;
  rocksdb::WriteOptions write_options_;

  // Used by apply only.
  GroupEvaluator evaluator_;
  rocksdb::WriteBatch batch_;
  PinnedValue current_pin_;

  // Written by apply, read by all.
  std::atomic<uint64_t> last_index_;
  std::atomic<bool> read_only_{false};
  mutable std::mutex health_mutex_;
  absl::Status health_;  // guarded by health_mutex_
};

}  // namespace

std::unique_ptr<ShardStore> make_rocksdb_shard_store(std::unique_ptr<rocksdb::DB> db, const Meta& meta,
                                                     SharedByStores& shared) {
  return std::make_unique<RocksdbShardStore>(std::move(db), meta, shared);
}

}  // namespace skua::kv::internal
