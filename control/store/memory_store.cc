#include "control/store/memory_store.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "control/store/transaction_rules.h"

namespace skua::control {

class MemoryStore::MemoryWatch final : public Watch {
 public:
  MemoryWatch(MemoryStore& store, std::string prefix, uint64_t next)
      : store_(store), prefix_(std::move(prefix)), next_(next) {}

  absl::StatusOr<WatchBatch> next(DurationNs timeout_ns) override {
    std::unique_lock lock(store_.mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    WatchBatch batch;
    while (true) {
      if (next_ < store_.oldest_) return compacted_error(next_, store_.oldest_);
      for (const WatchEvent& event : store_.history_) {
        const uint64_t revision = event.kv.mod_revision;
        if (revision < next_ || !event.kv.key.starts_with(prefix_)) continue;
        if (batch.events.size() >= kWatchBatchMax && batch.events.back().kv.mod_revision != revision) {
          break;
        }
        batch.events.push_back(event);
      }
      const bool full = batch.events.size() >= kWatchBatchMax;
      batch.revision = full ? batch.events.back().kv.mod_revision : store_.revision_;
      next_ = std::max(next_, batch.revision + 1);
      if (!batch.events.empty()) return batch;
      if (store_.changed_.wait_until(lock, deadline) == std::cv_status::timeout) return batch;
    }
  }

 private:
  MemoryStore& store_;
  const std::string prefix_;
  uint64_t next_;
};

absl::StatusOr<GetResult> MemoryStore::get(const std::string& key) {
  std::lock_guard lock(mutex_);
  GetResult result{std::nullopt, revision_};
  if (const auto found = kvs_.find(key); found != kvs_.end()) result.kv = found->second;
  return result;
}

absl::StatusOr<RangeResult> MemoryStore::range(const std::string& prefix) {
  std::lock_guard lock(mutex_);
  RangeResult result{{}, revision_};
  for (const auto& [key, kv] : kvs_) {
    if (key.starts_with(prefix)) result.kvs.push_back(kv);
  }
  return result;
}

absl::StatusOr<TransactionResult> MemoryStore::transact(const Transaction& transaction) {
  if (auto status = check_transaction(transaction); !status.ok()) return status;
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  const bool holds = std::all_of(transaction.compares.begin(), transaction.compares.end(), [&](const Compare& compare) {
    const auto found = kvs_.find(compare.key);
    return compare.mod_revision == (found == kvs_.end() ? 0 : found->second.mod_revision);
  });
  const size_t history_before = history_.size();
  ++revision_;
  for (const Operation& operation : holds ? transaction.then_ops : transaction.else_ops) {
    switch (operation.kind) {
      case Operation::Kind::kPut: put(operation.key, operation.value); break;
      case Operation::Kind::kDelete: erase(operation.key); break;
      case Operation::Kind::kDeletePrefix:
        while (true) {
          const auto first = kvs_.lower_bound(operation.key);
          if (first == kvs_.end() || !first->first.starts_with(operation.key)) break;
          erase(std::string(first->first));
        }
        break;
    }
  }
  if (history_.size() == history_before) --revision_;
  changed_.notify_all();
  return TransactionResult{holds, revision_};
}

absl::StatusOr<std::unique_ptr<Watch>> MemoryStore::watch(const std::string& prefix, uint64_t from_revision) {
  std::lock_guard lock(mutex_);
  const uint64_t first = from_revision == 0 ? revision_ + 1 : from_revision;
  if (first < oldest_) return compacted_error(first, oldest_);
  return std::make_unique<MemoryWatch>(*this, prefix, first);
}

absl::Status MemoryStore::compact(uint64_t revision) {
  std::lock_guard lock(mutex_);
  if (revision > revision_) {
    return absl::OutOfRangeError(
        absl::StrCat("cannot compact metadata to revision ", revision, "; the newest is ", revision_));
  }
  oldest_ = std::max(oldest_, revision);
  std::erase_if(history_, [&](const WatchEvent& e) { return e.kv.mod_revision < oldest_; });
  return absl::OkStatus();
}

void MemoryStore::fail_transactions(absl::Status status) {
  std::lock_guard lock(mutex_);
  failure_ = std::move(status);
}

void MemoryStore::put(const std::string& key, const std::string& value) {
  KeyValue& kv = kvs_[key];
  kv.key = key;
  kv.value = value;
  if (kv.create_revision == 0) kv.create_revision = revision_;
  kv.mod_revision = revision_;
  history_.push_back({WatchEvent::Kind::kPut, kv});
}

void MemoryStore::erase(const std::string& key) {
  if (kvs_.erase(key) == 0) return;
  history_.push_back({WatchEvent::Kind::kDelete, {key, {}, 0, revision_}});
}

}  // namespace skua::control
