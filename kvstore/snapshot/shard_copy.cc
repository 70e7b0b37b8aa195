#include "kvstore/snapshot/shard_copy.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/storage/effect_batch.h"
#include "kvstore/storage/replica_rows.h"

namespace skua::kv {
namespace {

class Copy final : public ShardCopy {
 public:
  explicit Copy(std::unique_ptr<ShardDb> db) : db_(std::move(db)), index_(db_->applied_index()) {}

  absl::Status load() {
    const std::vector<InternalRow> rows = db_->take_internal_rows();
    ReplicaRows replica;
    if (absl::Status loaded = replica.load(rows); !loaded.ok()) return loaded;
    if (absl::Status loaded = batch_.load(rows, kEntryTimeMsMax); !loaded.ok()) return loaded;
    runs_ = std::move(replica.runs);
    // Rows of the log's tail on the node that the snapshot comes from. They are removed, because these entries are not
    // known to be committed: other entries may follow here.
    std::vector<std::string> keys;
    keys.reserve(replica.tail.size());
    for (const auto& [index, entry] : replica.tail) keys.push_back(replica_tail_key(index));
    for (const std::string& key : keys) batch_.add({.key = key, .value = {}, .version = index_});
    return batch_.apply(*db_, index_);
  }

  absl::Status add(uint64_t index, int64_t time_ms, ByteSpan payload) override {
    const auto any = [](const Effect&) { return absl::OkStatus(); };
    if (absl::Status checked = check_entry(payload, keys_, any); !checked.ok()) return checked;
    if (index != index_ + 1 || !batch_.take(index, bounded_entry_ms(time_ms), payload)) {
      return absl::DataLossError(absl::StrCat("entry ", index, " does not follow entry ", index_,
                                              " of the copy, or is not one of this build's"));
    }
    index_ = index;
    return absl::OkStatus();
  }

  absl::Status apply() override { return batch_.apply(*db_, index_); }

  [[nodiscard]] uint64_t index() const override { return index_; }
  [[nodiscard]] const std::string& runs() const override { return runs_; }

  absl::Status close() override {
    absl::Status flushed = db_->flush().status();
    db_.reset();
    return flushed;
  }

 private:
  std::unique_ptr<ShardDb> db_;
  EffectBatch batch_;
  uint64_t index_ = 0;
  std::string runs_;
  absl::flat_hash_set<std::string_view> keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardCopy>> open_shard_copy(RocksdbEngine& engine, const std::string& dir, ShardId id) {
  auto db = engine.open_db(dir, id, RocksdbEngine::IfMissing::kFail);
  if (!db.ok()) return db.status();
  auto copy = std::make_unique<Copy>(*std::move(db));
  if (absl::Status loaded = copy->load(); !loaded.ok()) return loaded;
  return copy;
}

}  // namespace skua::kv
