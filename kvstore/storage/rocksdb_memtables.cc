#include "kvstore/storage/rocksdb_memtables.h"

#include <algorithm>
#include <cstdint>

#include "kvstore/storage/rocksdb_background.h"
#include "kvstore/storage/rocksdb_internal.h"

namespace skua::kv::internal {
namespace {

/// RocksDB's own limit is this many times ours, so that it does not take effect before ours.
constexpr size_t kManagersShare = 4;

}  // namespace

Memtables::Memtables(size_t bytes, const std::shared_ptr<rocksdb::Cache>& cache)
    : bytes_(bytes), manager_(std::make_shared<rocksdb::WriteBufferManager>(kManagersShare * bytes, cache)) {}

/// The database with the largest memtable, of those that can be flushed; null: none can be.
Memtables::Open Memtables::largest() const {
  Open largest;
  uint64_t most = 0;
  for (const auto& [db, background] : databases_) {
    const bool is_empty = property_of(*db, rocksdb::DB::Properties::kNumEntriesActiveMemTable) == 0;
    if (is_empty || !background->why().ok()) continue;
    const uint64_t bytes = property_of(*db, rocksdb::DB::Properties::kCurSizeActiveMemTable);
    if (bytes <= most) continue;
    most = bytes;
    largest = {db, background};
  }
  return largest;
}

void Memtables::add(rocksdb::DB& db, RocksdbBackground& background) {
  const std::lock_guard lock(mutex_);
  databases_.push_back({&db, &background});
}

void Memtables::remove(rocksdb::DB& db) {
  const std::lock_guard lock(mutex_);
  std::erase_if(databases_, [&db](const Open& open) { return open.db == &db; });
}

void Memtables::make_room() {
  if (manager_->mutable_memtable_memory_usage() <= bytes_ / 4 * 3 && manager_->memory_usage() <= bytes_) return;
  const std::lock_guard lock(mutex_);
  const bool full = manager_->memory_usage() > bytes_;
  if (!full && manager_->mutable_memtable_memory_usage() <= bytes_ / 4 * 3) return;  // another writer has made room
  const Open open = largest();
  if (open.db == nullptr) return;
  (void)open.background->flush(*open.db, full ? Wait::kYes : Wait::kNo);
}

}  // namespace skua::kv::internal
