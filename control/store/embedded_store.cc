#include "control/store/embedded_store.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/store/embedded_layout.h"
#include "control/store/transaction_rules.h"

namespace skua::control {
namespace {

using embedded::decode_event;
using embedded::decode_record;
using embedded::decode_u64;
using embedded::encode_event;
using embedded::encode_record;
using embedded::encode_u64;
using embedded::history_key;
using embedded::kFormatKey;
using embedded::kFormatVersion;
using embedded::kHistoryPrefix;
using embedded::kOldestKey;
using embedded::kRevisionKey;
using embedded::kUserPrefix;
using embedded::user_key;

std::string_view view(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

absl::Status to_status(const rocksdb::Status& status, const std::string& directory) {
  if (status.ok()) return absl::OkStatus();
  const std::string what = absl::StrCat("metadata store in ", directory, ": ", status.ToString());
  if (status.IsCorruption()) {
    return absl::DataLossError(absl::StrCat(what, ". Restore the directory from a backup"));
  }
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ". Free some disk space and start again"));
  }
  return absl::UnavailableError(what);
}

absl::Status damaged(const std::string& directory, const std::string& what) {
  return absl::DataLossError(absl::StrCat("metadata store in ", directory, ": ", what,
                                          " cannot be decoded. Restore the directory from a backup"));
}

/// RocksDB's own log file ends the process (an assertion of the library as Debian builds it) when it is used after a
/// write that failed, so a full disk would. What matters comes as a Status.
class NoInfoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

rocksdb::Options small_database() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = size_t{4} << 20;
  options.max_open_files = 64;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;
  options.info_log = std::make_shared<NoInfoLog>();
  return options;
}

/// RocksDB locks its directory, and says so only in words.
absl::Status open_error(const rocksdb::Status& status, const std::string& directory) {
  if (status.IsIOError() && status.ToString().find("lock") != std::string::npos) {
    return absl::FailedPreconditionError(absl::StrCat("metadata store in ", directory,
                                                      " is in use by another process (", status.ToString(),
                                                      "). Stop it, or choose another directory"));
  }
  return to_status(status, directory);
}

class EmbeddedStore final : public MetadataStore {
 public:
  EmbeddedStore(EmbeddedStoreOptions options, std::unique_ptr<rocksdb::DB> db)
      : options_(std::move(options)), db_(std::move(db)) {}

  /// Reads or writes the store's own keys. Call once, before anything else.
  absl::Status load();

  absl::StatusOr<GetResult> get(const std::string& key) override;
  absl::StatusOr<RangeResult> range(const std::string& prefix) override;
  absl::StatusOr<TransactionResult> transact(const Transaction& transaction) override;
  absl::StatusOr<std::unique_ptr<Watch>> watch(const std::string& prefix, uint64_t from_revision) override;
  absl::Status compact(uint64_t revision) override;

 private:
  class EmbeddedWatch;
  /// The keys that one transaction changes; nothing stands for a deletion.
  using ChangeSet = std::map<std::string, std::optional<std::string>>;

  absl::StatusOr<std::optional<uint64_t>> load_number(const char* key);
  absl::StatusOr<std::optional<KeyValue>> read(const std::string& key);
  absl::StatusOr<std::vector<KeyValue>> read_prefix(const std::string& prefix);
  absl::StatusOr<bool> holds(const std::vector<Compare>& compares);
  absl::StatusOr<ChangeSet> changes_of(const std::vector<Operation>& operations);
  absl::Status commit(const ChangeSet& changes);
  absl::Status compact_locked(uint64_t revision);
  absl::Status read_history(const std::string& prefix, uint64_t from_revision, WatchBatch& batch);
  [[nodiscard]] absl::Status check(const rocksdb::Status& status) const {
    return to_status(status, options_.directory);
  }

  // Constant after construction.
  const EmbeddedStoreOptions options_;
  const std::unique_ptr<rocksdb::DB> db_;

  // Protected by mutex_, as is the order of writes.
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t revision_ = 0;
  uint64_t oldest_ = 1;
};

class EmbeddedStore::EmbeddedWatch final : public Watch {
 public:
  EmbeddedWatch(EmbeddedStore& store, std::string prefix, uint64_t next)
      : store_(store), prefix_(std::move(prefix)), next_(next) {}

  absl::StatusOr<WatchBatch> next(DurationNs timeout_ns) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    std::unique_lock lock(store_.mutex_);
    WatchBatch batch;
    while (true) {
      if (next_ < store_.oldest_) return compacted_error(next_, store_.oldest_);
      batch.revision = store_.revision_;
      if (next_ <= store_.revision_) {
        if (auto status = store_.read_history(prefix_, next_, batch); !status.ok()) return status;
        next_ = batch.revision + 1;
      }
      if (!batch.events.empty()) return batch;
      if (store_.changed_.wait_until(lock, deadline) == std::cv_status::timeout) return batch;
    }
  }

 private:
  EmbeddedStore& store_;
  const std::string prefix_;
  uint64_t next_;
};

absl::Status EmbeddedStore::load() {
  const auto format = load_number(kFormatKey);
  if (!format.ok()) return format.status();
  if (!format->has_value()) {
    rocksdb::WriteOptions sync;
    sync.sync = true;
    return check(db_->Put(sync, kFormatKey, encode_u64(kFormatVersion)));
  }
  if (**format != kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("metadata store in ", options_.directory, " has format ",
                                                      **format, ", this program reads format ", kFormatVersion,
                                                      ". Use the version of Skua that wrote it, or a newer one"));
  }
  const auto revision = load_number(kRevisionKey);
  if (!revision.ok()) return revision.status();
  const auto oldest = load_number(kOldestKey);
  if (!oldest.ok()) return oldest.status();
  revision_ = revision->value_or(0);
  oldest_ = oldest->value_or(1);
  return absl::OkStatus();
}

absl::StatusOr<GetResult> EmbeddedStore::get(const std::string& key) {
  std::lock_guard lock(mutex_);
  auto kv = read(key);
  if (!kv.ok()) return kv.status();
  return GetResult{*std::move(kv), revision_};
}

absl::StatusOr<RangeResult> EmbeddedStore::range(const std::string& prefix) {
  std::lock_guard lock(mutex_);
  auto kvs = read_prefix(prefix);
  if (!kvs.ok()) return kvs.status();
  return RangeResult{*std::move(kvs), revision_};
}

absl::StatusOr<TransactionResult> EmbeddedStore::transact(const Transaction& transaction) {
  if (auto status = check_transaction(transaction); !status.ok()) return status;
  std::lock_guard lock(mutex_);
  const auto succeeded = holds(transaction.compares);
  if (!succeeded.ok()) return succeeded.status();
  const auto changes = changes_of(*succeeded ? transaction.then_ops : transaction.else_ops);
  if (!changes.ok()) return changes.status();
  if (!changes->empty()) {
    if (auto status = commit(*changes); !status.ok()) return status;
  }
  return TransactionResult{*succeeded, revision_};
}

absl::StatusOr<std::unique_ptr<Watch>> EmbeddedStore::watch(const std::string& prefix, uint64_t from_revision) {
  std::lock_guard lock(mutex_);
  const uint64_t first = from_revision == 0 ? revision_ + 1 : from_revision;
  if (first < oldest_) return compacted_error(first, oldest_);
  return std::make_unique<EmbeddedWatch>(*this, prefix, first);
}

absl::Status EmbeddedStore::compact(uint64_t revision) {
  std::lock_guard lock(mutex_);
  if (revision > revision_) {
    return absl::OutOfRangeError(
        absl::StrCat("cannot compact metadata to revision ", revision, "; the newest is ", revision_));
  }
  return compact_locked(revision);
}

absl::StatusOr<std::optional<uint64_t>> EmbeddedStore::load_number(const char* key) {
  std::string bytes;
  const rocksdb::Status status = db_->Get({}, key, &bytes);
  if (status.IsNotFound()) return std::optional<uint64_t>();
  if (!status.ok()) return check(status);
  const auto number = decode_u64(bytes);
  if (!number) return damaged(options_.directory, key);
  return number;
}

absl::StatusOr<std::optional<KeyValue>> EmbeddedStore::read(const std::string& key) {
  std::string bytes;
  const rocksdb::Status status = db_->Get({}, user_key(key), &bytes);
  if (status.IsNotFound()) return std::optional<KeyValue>();
  if (!status.ok()) return check(status);
  auto kv = decode_record(key, bytes);
  if (!kv) return damaged(options_.directory, key);
  return kv;
}

absl::StatusOr<std::vector<KeyValue>> EmbeddedStore::read_prefix(const std::string& prefix) {
  std::vector<KeyValue> kvs;
  const std::string first = user_key(prefix);
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
  for (it->Seek(first); it->Valid() && it->key().starts_with(first); it->Next()) {
    const std::string_view key = view(it->key()).substr(std::string_view(kUserPrefix).size());
    auto kv = decode_record(key, view(it->value()));
    if (!kv) return damaged(options_.directory, std::string(key));
    kvs.push_back(*std::move(kv));
  }
  if (!it->status().ok()) return check(it->status());
  return kvs;
}

absl::StatusOr<bool> EmbeddedStore::holds(const std::vector<Compare>& compares) {
  for (const Compare& compare : compares) {
    const auto kv = read(compare.key);
    if (!kv.ok()) return kv.status();
    const uint64_t mod_revision = kv->has_value() ? (*kv)->mod_revision : 0;
    if (mod_revision != compare.mod_revision) return false;
  }
  return true;
}

absl::StatusOr<EmbeddedStore::ChangeSet> EmbeddedStore::changes_of(const std::vector<Operation>& operations) {
  ChangeSet changes;
  for (const Operation& operation : operations) {
    if (operation.kind == Operation::Kind::kPut) {
      changes[operation.key] = operation.value;
    } else if (operation.kind == Operation::Kind::kDelete) {
      const auto kv = read(operation.key);
      if (!kv.ok()) return kv.status();
      if (kv->has_value()) changes[operation.key] = std::nullopt;
    } else {
      const auto kvs = read_prefix(operation.key);
      if (!kvs.ok()) return kvs.status();
      for (const KeyValue& kv : *kvs) changes[kv.key] = std::nullopt;
    }
  }
  return changes;
}

absl::Status EmbeddedStore::commit(const ChangeSet& changes) {
  const uint64_t revision = revision_ + 1;
  uint32_t index = 0;
  rocksdb::WriteBatch batch;
  for (const auto& [key, value] : changes) {
    WatchEvent event{value ? WatchEvent::Kind::kPut : WatchEvent::Kind::kDelete,
                     {key, value.value_or(std::string()), 0, revision}};
    rocksdb::Status status;
    if (value) {
      const auto before = read(key);
      if (!before.ok()) return before.status();
      event.kv.create_revision = before->has_value() ? (*before)->create_revision : revision;
      status = batch.Put(user_key(key), encode_record(event.kv));
    } else {
      status = batch.Delete(user_key(key));
    }
    if (status.ok()) status = batch.Put(history_key(revision, index++), encode_event(event));
    if (!status.ok()) return check(status);
  }
  rocksdb::Status status = batch.Put(kRevisionKey, encode_u64(revision));
  rocksdb::WriteOptions sync;
  sync.sync = true;
  if (status.ok()) status = db_->Write(sync, &batch);
  if (!status.ok()) return check(status);
  revision_ = revision;
  changed_.notify_all();
  if (revision_ - oldest_ >= 2 * options_.history_revisions) {
    // The transaction is done; what cannot be forgotten now is forgotten later.
    compact_locked(revision_ - options_.history_revisions).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status EmbeddedStore::compact_locked(uint64_t revision) {
  if (revision <= oldest_) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.DeleteRange(history_key(0, 0), history_key(revision, 0));
  if (status.ok()) status = batch.Put(kOldestKey, encode_u64(revision));
  if (status.ok()) status = db_->Write({}, &batch);
  if (!status.ok()) return check(status);
  oldest_ = revision;
  return absl::OkStatus();
}

absl::Status EmbeddedStore::read_history(const std::string& prefix, uint64_t from_revision, WatchBatch& batch) {
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
  for (it->Seek(history_key(from_revision, 0)); it->Valid() && it->key().starts_with(kHistoryPrefix); it->Next()) {
    auto event = decode_event(view(it->value()));
    if (!event) return damaged(options_.directory, "an event of the history");
    if (!event->kv.key.starts_with(prefix)) continue;
    if (batch.events.size() >= kWatchBatchMax && batch.events.back().kv.mod_revision != event->kv.mod_revision) {
      batch.revision = batch.events.back().kv.mod_revision;
      break;
    }
    batch.events.push_back(*std::move(event));
  }
  return check(it->status());
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetadataStore>> open_embedded_store(const EmbeddedStoreOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) {
    return absl::PermissionDeniedError(absl::StrCat("cannot create metadata store in ", options.directory, ": ",
                                                    error.message(), ". Choose a directory that this user can write"));
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(small_database(), options.directory, &db);
  if (!opened.ok()) return open_error(opened, options.directory);
  auto store = std::make_unique<EmbeddedStore>(options, std::unique_ptr<rocksdb::DB>(db));
  if (auto status = store->load(); !status.ok()) return status;
  return store;
}

}  // namespace skua::control
