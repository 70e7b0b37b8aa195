// A binding over a map, for tests: holds each operation back for a while, completes them out of
// order, and fails on request.
#ifndef SKUA_TESTS_YCSB_DRIVER_MEMORY_BINDING_H_
#define SKUA_TESTS_YCSB_DRIVER_MEMORY_BINDING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "ycsb/bindings/binding.h"

namespace skua::ycsb {

/// What several sessions share. Thread: any, through its methods.
class MemoryStore {
 public:
  using Record = std::map<std::string, std::string>;

  /// Asked before each operation; anything but kOk is its outcome instead.
  std::function<Status(const Operation&)> fault = [](const Operation&) { return Status::kOk; };
  /// Polls fail once this many operations have been completed.
  uint64_t lost_after = UINT64_MAX;
  bool stuck = false;  // nothing completes

  Status apply(const Operation& op, const Schema& schema, Record& read, uint64_t& rows) {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.emplace_back(op.kind, op.key);
    if (const Status status = fault(op); status != Status::kOk) return status;
    switch (op.kind) {
      case OpKind::kInsert:
      case OpKind::kUpdate:
        if (op.kind == OpKind::kUpdate && !records_.contains(op.key)) return Status::kNotFound;
        for (const FieldWrite& write : op.writes()) records_[op.key][schema.field_names[write.field]] = write.value;
        return Status::kOk;
      case OpKind::kRead: {
        const auto it = records_.find(op.key);
        if (it == records_.end()) return Status::kNotFound;
        read = it->second;
        return Status::kOk;
      }
      case OpKind::kScan:
        for (auto it = records_.lower_bound(op.key); it != records_.end() && rows < op.scan_length; ++it) ++rows;
        return Status::kOk;
      default: return Status::kNotImplemented;
    }
  }

  std::map<std::string, Record> records() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return records_;
  }
  std::vector<std::pair<OpKind, std::string>> log() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Record> records_;
  std::vector<std::pair<OpKind, std::string>> log_;
};

class MemorySession final : public BindingSession {
 public:
  MemorySession(MemoryStore& store, const Schema& schema, const SessionOptions& options)
      : store_(store), schema_(schema), options_(options), rng_(options.seed) {}

  void submit(const Operation& op, CompletionFn done) override {
    waiting_.push_back({&op, done});
    most_in_flight = std::max(most_in_flight, waiting_.size());
    EXPECT_LE(waiting_.size(), options_.in_flight_max);
    EXPECT_NE(op.kind, OpKind::kReadModifyWrite);
  }

  absl::Status poll(DurationNs /*timeout*/) override {
    if (store_.stuck) return absl::OkStatus();
    if (completed_ >= store_.lost_after) {
      while (!waiting_.empty()) complete(0, true);
      return absl::UnavailableError("the store went away");
    }
    for (uint64_t n = rng_.below(waiting_.size() + 1); n > 0; --n) complete(rng_.below(waiting_.size()), false);
    return absl::OkStatus();
  }

  size_t most_in_flight = 0;

 private:
  struct Waiting {
    const Operation* op;
    CompletionFn done;
  };

  void complete(size_t at, bool lost) {
    const Waiting waiting = waiting_[at];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    ++completed_;
    MemoryStore::Record record;
    OpResult result;
    result.status = lost ? Status::kServiceUnavailable : store_.apply(*waiting.op, schema_, record, result.row_count);
    if (!is_ok(result.status)) result.message = "as the test wants it";
    std::vector<NamedValue> fields;
    if (options_.return_fields)
      for (const auto& [name, value] : record) fields.push_back({name, value});
    result.fields = fields;
    waiting.done(result);
  }

  MemoryStore& store_;
  const Schema& schema_;
  const SessionOptions options_;
  Rng rng_;
  std::vector<Waiting> waiting_;
  uint64_t completed_ = 0;
};

class MemoryBinding final : public Binding {
 public:
  MemoryBinding(MemoryStore& store, const Schema& schema) : store_(store), schema_(schema) {}
  absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& options) override {
    auto session = std::make_unique<MemorySession>(store_, schema_, options);
    last_session = session.get();
    return session;
  }

  MemorySession* last_session = nullptr;  // valid while its thread has not closed it

 private:
  MemoryStore& store_;
  const Schema& schema_;
};

}  // namespace skua::ycsb

#endif  // SKUA_TESTS_YCSB_DRIVER_MEMORY_BINDING_H_
