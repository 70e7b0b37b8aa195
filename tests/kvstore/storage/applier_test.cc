#include "kvstore/storage/applier.h"

#include <gtest/gtest.h>

#include <array>
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
    if (is_full_) return absl::ResourceExhaustedError("the disk is full");
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
  void fill_disk() { is_full_ = true; }

 private:
  bool is_full_ = false;
  std::map<std::string, std::string, std::less<>> rows_;
  size_t effects_ = 0;
  uint64_t applied_index_ = 0;
};

using Rows = std::map<std::string, std::string, std::less<>>;

/// An applier of two shards, without a thread: the test runs its rounds.
class ApplierTest : public ::testing::Test {
 protected:
  struct TestShard {
    MapDb db;
    AppliedShard applied;
    Applier::Report told{};  // the latest
  };

  void start(Applier::Options options) {
    options.own_thread = false;
    applier_.emplace(options, log_, [this](const std::vector<Applier::Report>& reports) {
      for (const Applier::Report& report : reports) {
        applier_->taken(report.effects);
        static_cast<TestShard*>(report.shard->context)->told = report;
      }
    });
    for (TestShard& shard : shards_) {
      shard.applied.db = &shard.db;
      shard.applied.context = &shard;
      applier_->open(shard.applied);
    }
  }

  void put(TestShard& shard, std::string_view key, std::string_view value) {
    applier_->add(shard.applied, {.key = key, .value = as_byte_span(value), .version = ++version_});
  }
  void put_many(TestShard& shard, size_t count) {
    for (size_t i = 0; i < count; ++i) put(shard, "key", "value");
  }
  void run() {
    while (applier_->step()) {
    }
  }

  sim::SimDevice device_{1, uint64_t{16} << 20};
  LogWriter log_{testing::open_log(device_, testing::small_options()),
                 {.own_thread = false},
                 [](std::span<const LogSubmission>, const absl::Status&) {}};
  std::array<TestShard, 2> shards_;
  TestShard& one_ = shards_[0];
  TestShard& other_ = shards_[1];
  std::optional<Applier> applier_;
  uint64_t version_ = 0;
};

TEST_F(ApplierTest, Batch_HasTheLastWriteOfEachKey) {
  start({.batch_effects = 3});
  put(one_, "b", "1");
  put(one_, "a", "2");
  put(one_, "b", "3");
  run();
  EXPECT_EQ(one_.db.rows(), (Rows{{"a", "2"}, {"b", "3"}}));
  EXPECT_EQ(one_.db.effects(), 2u);
  EXPECT_EQ(one_.db.applied_index(), 3u);
  EXPECT_EQ(applier_->queued(), 0u);
}

TEST_F(ApplierTest, Batch_GrowsOverRoundsUntilItIsLarge) {
  start({.batch_effects = 4});
  put_many(one_, 3);
  run();
  EXPECT_EQ(applier_->queued(), 0u) << "the queue's room is free again";
  EXPECT_EQ(one_.db.applied_index(), 0u);
  put_many(other_, 1);
  run();
  EXPECT_EQ(one_.db.applied_index(), 0u) << "each shard has its own batch";
  put_many(one_, 1);
  run();
  EXPECT_EQ(one_.db.applied_index(), version_);
  EXPECT_EQ(one_.db.effects(), 1u);
  EXPECT_EQ(other_.db.applied_index(), 0u);
}

TEST_F(ApplierTest, Batch_OfLargeValuesIsWrittenForItsBytes) {
  start({.batch_bytes = 1000});
  const std::string value(600, 'v');
  put(one_, "a", value);
  run();
  EXPECT_EQ(one_.db.applied_index(), 0u);
  put(one_, "b", value);
  run();
  EXPECT_EQ(one_.db.applied_index(), version_);
}

TEST_F(ApplierTest, Hurry_WritesTheShardThatIsNamed) {
  start({});
  put_many(one_, 2);
  put_many(other_, 2);
  run();
  applier_->hurry(one_.applied);
  run();
  EXPECT_EQ(one_.db.applied_index(), 2u) << "though there was nothing new in the queue";
  EXPECT_EQ(other_.db.applied_index(), 0u);
  applier_->hurry_all();
  run();
  EXPECT_EQ(other_.db.applied_index(), 4u);
}

TEST_F(ApplierTest, Batch_IsWrittenWhenMuchHasComeAfterIt) {
  start({.age_effects = 5, .age_bytes = 1000});
  put_many(one_, 1);
  put_many(other_, 4);
  run();
  EXPECT_EQ(one_.db.applied_index(), 0u);
  put_many(other_, 1);
  run();
  EXPECT_EQ(one_.db.applied_index(), 1u) << "the memory around a value that waits cannot be used";
  put(one_, "k", "v");
  const std::string large(1000, 'v');
  put(other_, "k", large);
  run();
  EXPECT_EQ(one_.db.applied_index(), 7u);
}

TEST_F(ApplierTest, TakeNow_LeavesBatchesGrowing) {
  start({});
  put_many(one_, 2);
  applier_->take_now();
  EXPECT_TRUE(applier_->is_due());
  run();
  EXPECT_FALSE(applier_->is_due());
  EXPECT_EQ(applier_->queued(), 0u);
  EXPECT_EQ(one_.db.applied_index(), 0u);
}

TEST_F(ApplierTest, FullDisk_IsToldInEachReport_AndStopEnds) {
  start({.batch_effects = 2});
  one_.db.fill_disk();
  put_many(one_, 3);
  run();
  EXPECT_FALSE(one_.told.held_up.ok());
  put_many(one_, 1);
  run();
  EXPECT_FALSE(one_.told.held_up.ok()) << "a report of effects that were only taken";
  applier_->hurry(one_.applied);
  run();
  put_many(other_, 2);
  run();
  EXPECT_EQ(other_.db.applied_index(), version_);
  applier_->stop();
  EXPECT_EQ(one_.db.applied_index(), 0u);
}

TEST(ApplierOptions, FitASmallMemoryTier) {
  Applier::Options options;
  options.fit(size_t{1} << 30);
  EXPECT_EQ(options.batch_effects, Applier::Options().batch_effects);
  options.fit(size_t{16} << 20);
  EXPECT_EQ(options.batch_bytes, Applier::Options().batch_bytes / 64);
  EXPECT_EQ(options.age_bytes, Applier::Options().age_bytes / 64);
  options.batch_effects = 3;
  options.fit(0);
  EXPECT_EQ(options.batch_effects, 3u);
  EXPECT_GT(options.age_bytes, 0u);
}

TEST_F(ApplierTest, StopWritesWhatWaits) {
  start({});
  put_many(one_, 2);
  run();
  put_many(other_, 1);
  applier_->stop();
  EXPECT_EQ(one_.db.applied_index(), 2u);
  EXPECT_EQ(other_.db.applied_index(), 3u);
}

}  // namespace
}  // namespace skua::kv
