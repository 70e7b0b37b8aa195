// A database over another one, for tests that watch or hold up some of the calls.
#ifndef SKUA_TESTS_KVSTORE_SHARD_FORWARDING_DB_H_
#define SKUA_TESTS_KVSTORE_SHARD_FORWARDING_DB_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/storage/shard_db.h"

namespace skua::kv::testing {

/// Tests override what they look at. Thread: as the database below.
class ForwardingDb : public ShardDb {
 public:
  explicit ForwardingDb(std::unique_ptr<ShardDb> db) : db_(std::move(db)) {}

  [[nodiscard]] ShardId id() const override { return db_->id(); }
  [[nodiscard]] absl::Status apply(std::span<const AppliedEffect> effects, uint64_t index) override {
    return db_->apply(effects, index);
  }
  [[nodiscard]] absl::Status ingest(std::span<const AppliedEffect> effects, uint64_t index) override {
    return db_->ingest(effects, index);
  }
  [[nodiscard]] absl::StatusOr<uint64_t> flush() override { return db_->flush(); }
  [[nodiscard]] uint64_t applied_index() const override { return db_->applied_index(); }
  [[nodiscard]] std::vector<InternalRow> take_internal_rows() override { return db_->take_internal_rows(); }
  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override { return db_->get(key, out); }
  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const KeyRange& range, RowVisitor visit) override {
    return db_->scan(range, visit);
  }
  [[nodiscard]] StoreStats stats() const override { return db_->stats(); }

 private:
  const std::unique_ptr<ShardDb> db_;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_SHARD_FORWARDING_DB_H_
