// Databases of shards in memory, for one thread: what they are given is there, and nothing ever fails.
#ifndef SKUA_TESTS_FUZZ_MEMORY_DB_H_
#define SKUA_TESTS_FUZZ_MEMORY_DB_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/shard/evaluate.h"
#include "kvstore/storage/shard_db.h"
#include "rpc/base/check.h"

namespace skua::kv::fuzz {

class MemoryDb final : public ShardDb {
 public:
  explicit MemoryDb(ShardId id) : id_(id) {}

  [[nodiscard]] ShardId id() const override { return id_; }
  [[nodiscard]] absl::Status apply(std::span<const AppliedEffect> effects, uint64_t applied_index) override {
    SKUA_CHECK(applied_index >= index_, "a database goes back");
    index_ = applied_index;
    for (const AppliedEffect& effect : effects) {
      std::map<std::string, Row, std::less<>>& rows = effect.key.size() > kKeyBytesMax ? internal_rows_ : rows_;
      if (effect.value) {
        rows[std::string(effect.key)] = {effect.version, std::string(as_string_view(*effect.value)), effect.expires_at,
                                         effect.mark};
      } else {
        rows.erase(std::string(effect.key));
      }
    }
    return absl::OkStatus();
  }
  [[nodiscard]] absl::Status ingest(std::span<const AppliedEffect> effects, uint64_t applied_index) override {
    return apply(effects, applied_index);
  }
  [[nodiscard]] absl::StatusOr<uint64_t> flush() override { return index_; }
  [[nodiscard]] uint64_t applied_index() const override { return index_; }
  [[nodiscard]] std::vector<InternalRow> take_internal_rows() override {
    std::vector<InternalRow> rows;
    for (const auto& [key, row] : internal_rows_) rows.push_back({key, row.value});
    return rows;
  }
  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override {
    const auto row = rows_.find(key);
    if (row == rows_.end()) return absl::NotFoundError("no such key");
    out = PinnedValue(as_byte_span(row->second.value), row->second.version, nullptr, nullptr, row->second.expires_at,
                      row->second.mark)
              .copied();
    return absl::OkStatus();
  }
  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const KeyRange& range, RowVisitor visit) override {
    for (auto it = rows_.lower_bound(range.start); it != rows_.end(); ++it) {
      const auto& [key, row] = *it;
      if (range.start_exclusive && key == range.start) continue;
      if (!range.end.empty() && key >= range.end) break;
      if (is_expired(row.expires_at, range.now_ms)) continue;
      if (!visit({key, row.version, as_byte_span(row.value), row.mark})) return ScanEnd{true, index_};
    }
    return ScanEnd{false, index_};
  }
  [[nodiscard]] StoreStats stats() const override { return {}; }

  [[nodiscard]] size_t row_count() const { return rows_.size() + internal_rows_.size(); }

 private:
  struct Row {
    uint64_t version = 0;
    std::string value;
    uint64_t expires_at = 0;
    RecordMark mark{};
  };
  const ShardId id_;
  std::map<std::string, Row, std::less<>> rows_;
  std::map<std::string, Row, std::less<>> internal_rows_;
  uint64_t index_ = 0;
};

}  // namespace skua::kv::fuzz

#endif  // SKUA_TESTS_FUZZ_MEMORY_DB_H_
