#include "kvstore/engine/rocksdb_memtables.h"

#include <algorithm>
#include <cstdint>

namespace skua::kv::internal {
namespace {

/// RocksDB's own limit is out of the way, but there.
constexpr size_t kManagersShare = 4;

rocksdb::DB* largest_of(const std::vector<rocksdb::DB*>& databases) {
  rocksdb::DB* largest = nullptr;
  uint64_t most = 0;
  for (rocksdb::DB* db : databases) {
    uint64_t bytes = 0;
    uint64_t entries = 0;
    (void)db->GetIntProperty(rocksdb::DB::Properties::kNumEntriesActiveMemTable, &entries);
    if (entries == 0) continue;
    (void)db->GetIntProperty(rocksdb::DB::Properties::kCurSizeActiveMemTable, &bytes);
    if (bytes <= most) continue;
    most = bytes;
    largest = db;
  }
  return largest;
}

}  // namespace

Memtables::Memtables(size_t bytes, const std::shared_ptr<rocksdb::Cache>& cache)
    : bytes_(bytes), manager_(std::make_shared<rocksdb::WriteBufferManager>(kManagersShare * bytes, cache)) {}

void Memtables::add(rocksdb::DB& db) {
  const std::lock_guard lock(mutex_);
  databases_.push_back(&db);
}

void Memtables::remove(rocksdb::DB& db) {
  const std::lock_guard lock(mutex_);
  std::erase(databases_, &db);
}

void Memtables::make_room() {
  if (manager_->mutable_memtable_memory_usage() <= bytes_ / 4 * 3 && manager_->memory_usage() <= bytes_) return;
  const std::lock_guard lock(mutex_);
  const bool full = manager_->memory_usage() > bytes_;
  if (!full && manager_->mutable_memtable_memory_usage() <= bytes_ / 4 * 3) return;  // another writer has seen to it
  rocksdb::DB* db = largest_of(databases_);
  if (db == nullptr) return;
  rocksdb::FlushOptions options;
  options.wait = full;
  options.allow_write_stall = true;
  (void)db->Flush(options);
}

}  // namespace skua::kv::internal
