#include "kvstore/storage/applier.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/bytes.h"
#include "tests/kvstore/log/log_testing.h"

namespace skua::kv {
namespace {

/// A database that keeps its rows in a map.
class MapDb final : public ShardDb {
 public:
  [[nodiscard]] ShardId id() const override { return {7, 0}; }
  [[nodiscard]] absl::Status apply(std::span<const AppliedEffect> effects, uint64_t applied_index) override {
    for (const AppliedEffect& effect : effects) rows_[std::string(effect.key)] = as_string_view(*effect.value);
    effects_ += effects.size();
    applied_index_ = applied_index;
    return absl::OkStatus();
  }
  [[nodiscard]] absl::Status ingest(std::span<const AppliedEffect> effects, uint64_t applied_index) override {
    return apply(effects, applied_index);
  }
  [[nodiscard]] absl::StatusOr<uint64_t> flush() override { return applied_index_; }
  [[nodiscard]] uint64_t applied_index() const override { return applied_index_; }
  [[nodiscard]] absl::Status get(std::string_view /*key*/, PinnedValue& /*out*/) override {
    return absl::UnimplementedError("the test looks at rows()");
  }
  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const KeyRange& /*range*/, RowVisitor /*visit*/) override {
    return absl::UnimplementedError("the test looks at rows()");
  }
  [[nodiscard]] StoreStats stats() const override { return {}; }

  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& rows() const { return rows_; }
  [[nodiscard]] size_t effects() const { return effects_; }

 private:
  std::map<std::string, std::string, std::less<>> rows_;
  size_t effects_ = 0;
  uint64_t applied_index_ = 0;
};

/// An applier without a thread: the test runs its rounds.
class ApplierTest : public ::testing::Test {
 protected:
  void start(size_t batch_min, size_t batch_most) {
    applier_.emplace(Applier::Options{.batch_min = batch_min, .batch_most = batch_most, .own_thread = false}, log_,
                     [this](std::vector<Applier::Report> reports) {
                       for (const Applier::Report& report : reports) applier_->taken(report.effects);
                     });
    shard_.db = &db_;
    applier_->open(shard_);
  }

  void put(std::string_view key, std::string_view value) {
    applier_->add(shard_, {.key = key, .value = as_byte_span(value), .version = ++version_});
  }

  void put_many(size_t count) {
    for (size_t i = 0; i < count; ++i) put("key", "value");
  }

  void run() {
    while (applier_->step()) {
    }
  }

  sim::SimDevice device_{1, uint64_t{16} << 20};
  LogWriter log_{testing::open_log(device_, testing::small_options()),
                 {.own_thread = false},
                 [](std::span<const LogSubmission>) {}};
  MapDb db_;
  AppliedShard shard_;
  std::optional<Applier> applier_;
  uint64_t version_ = 0;
};

TEST_F(ApplierTest, Round_AppliesTheLastWriteOfEachKey) {
  start(4, 4);
  put("b", "1");
  put("a", "2");
  put("b", "3");
  run();
  EXPECT_EQ(db_.rows(), (std::map<std::string, std::string, std::less<>>{{"a", "2"}, {"b", "3"}}));
  EXPECT_EQ(db_.effects(), 2u);
  EXPECT_EQ(db_.applied_index(), 3u);
  EXPECT_EQ(applier_->queued(), 0u);
}

TEST_F(ApplierTest, Batches_GrowAsLongAsNobodyHurries) {
  start(4, 10);
  EXPECT_EQ(applier_->wakes_at(), 4u);
  put_many(3);
  EXPECT_EQ(applier_->wakes_at(), 4u);
  put_many(1);
  EXPECT_EQ(applier_->wakes_at(), 8u);
  put_many(8);
  EXPECT_EQ(applier_->wakes_at(), 10u) << "not beyond batch_most";
  put_many(10);
  EXPECT_EQ(applier_->wakes_at(), 10u);
  put_many(1);
  applier_->hurry();
  EXPECT_EQ(applier_->wakes_at(), 4u) << "a scan waits, and more may come";
  run();
  EXPECT_EQ(db_.applied_index(), version_);
}

}  // namespace
}  // namespace skua::kv
