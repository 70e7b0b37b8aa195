#include "kvstore/snapshot/snapshot_copy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/effect.h"
#include "rpc/base/crc32c.h"
#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;

constexpr ShardId kShard = {7, 0};
constexpr ShardId kOther = {7, 1};
constexpr NodeId kPrimary = 5;
constexpr DurationNs kHeartbeatNs = 50 * kMillisecond;

/// A database that only knows which entries it has.
class FakeDatabase final : public ShardCopy {
 public:
  FakeDatabase(uint64_t index, std::string runs, std::vector<std::string>& entries)
      : index_(index), runs_(std::move(runs)), entries_(entries) {}
  absl::Status add(uint64_t index, int64_t, ByteSpan payload) override {
    if (index != ++index_) return absl::DataLossError("a gap");
    entries_.emplace_back(as_string_view(payload));
    return absl::OkStatus();
  }
  absl::Status apply() override { return absl::OkStatus(); }
  [[nodiscard]] uint64_t index() const override { return index_; }
  [[nodiscard]] const std::string& runs() const override { return runs_; }
  absl::Status close() override { return absl::OkStatus(); }

 private:
  uint64_t index_;
  std::string runs_;
  std::vector<std::string>& entries_;
};

/// A primary's snapshot, this node's replica, its disk and the time; all waits are in queues.
class SnapshotCopyTest : public ::testing::Test, public SnapshotCopyHost {
 protected:
  SnapshotCopyTest() {
    fs::create_directories(directory_);
    options_.directory = directory_;
    options_.pull.chunk_bytes = 100;
    options_.pull.bytes_per_s = 1'000'000;
  }
  ~SnapshotCopyTest() override { fs::remove_all(directory_); }

  // SnapshotCopyHost
  bool fetch(ShardId shard, NodeId from, const FetchChunk& what, Fetched done) override {
    asked_.push_back(shard);
    if (!connected_) return false;
    EXPECT_EQ(from, source_);
    requests_.push_back({what, std::move(done)});
    return true;
  }
  bool fetch_tail(ShardId shard, NodeId from, const FetchTail& what, Fetched done) override {
    if (!connected_) return false;
    EXPECT_EQ(from, source_);
    EXPECT_EQ(shard.shard, what.shard);
    tail_requests_.push_back({what, std::move(done)});
    return true;
  }
  bool on_disk(Work work, Worked done) override {
    work_.push_back({std::move(work), std::move(done)});
    return true;
  }
  bool on_builder(Work work, Worked done) override {
    building_.push_back({std::move(work), std::move(done)});
    return true;
  }
  std::optional<ReplicaPosition> position(ShardId) override { return position_; }
  SnapshotFit fit(ShardId, EntryId end) override {
    if (end.index < commit_index_) return SnapshotFit::kNone;
    const bool has = end.index <= position_->last_index && end.epoch == log_epoch_;
    return has ? SnapshotFit::kKeepsLog : SnapshotFit::kReplacesLog;
  }
  absl::StatusOr<std::unique_ptr<ShardCopy>> build(ShardId shard, const std::string& path,
                                                   const std::string& directory) override {
    if (!verified_.ok()) return verified_;
    fs::copy(path, directory + "/" + std::to_string(shard.table_id) + "-" + std::to_string(shard.shard),
             fs::copy_options::recursive);
    built_.clear();
    return std::make_unique<FakeDatabase>(real_index_.value_or(end_.index), runs_, built_);
  }
  void install(ShardId shard, const std::string& path) override {
    installed_.push_back(shard);
    path_ = path;
  }
  std::string name_of(NodeId node) override { return std::to_string(node); }
  void tell(LogSeverity, const std::string& line) override { told_.push_back(line); }

  /// One round of everything; the primary says again that the logs do not reach.
  void step(const std::vector<ShardId>& wanting) {
    now_ += 10 * kMillisecond;
    if (now_ % kHeartbeatNs == 0) {
      for (const ShardId shard : wanting) copies_->wanted(shard, source_, now_);
    }
    copies_->tick(now_);
    if (writes_) written_.push_back("entry " + std::to_string(written_.size()));
    answer();
    answer_tails();
    work();
  }
  void answer() {
    for (auto& [what, done] : std::exchange(requests_, {})) {
      if (!refusal_.ok()) {
        done(refusal_);
        continue;
      }
      const auto& [name, bytes] = files_[what.file];
      const std::string_view data = std::string_view(bytes).substr(what.offset, what.bytes_max);
      const Chunk chunk{.snapshot = 9,
                        .end = end_,
                        .files = static_cast<uint32_t>(files_.size()),
                        .file_bytes = bytes.size(),
                        .offset = what.offset,
                        .crc32c = crc32c(as_byte_span(data)),
                        .name = name,
                        .data = as_byte_span(data)};
      std::array<std::byte, kChunkHeadBytesMax> head;
      std::string encoded(as_string_view(encode_chunk_head(chunk, head).value()));
      encoded += data;
      done(as_byte_span(encoded));
    }
  }
  /// At most three entries in one piece; before `kept_from_` there are none any more.
  void answer_tails() {
    for (auto& [what, done] : std::exchange(tail_requests_, {})) {
      if (!tail_refusal_.ok() || what.after + 1 < kept_from_) {
        done(tail_refusal_.ok() ? absl::OutOfRangeError("not kept any more") : tail_refusal_);
        continue;
      }
      Append append{.epoch = 4, .prev = {what.after, 0}, .epochs = {}, .commit_index = end_.index + written_.size()};
      std::vector<AppendEntry> entries;
      for (size_t at = what.after - end_.index; at < written_.size() && entries.size() < 3; ++at) {
        entries.push_back({.epoch = 4, .time = 1, .payload = as_byte_span(written_[at])});
        append.epochs.push_back(4);
      }
      done(as_byte_span(testing::plain_append({what.table, what.shard, source_, 1}, append, entries)));
    }
  }
  void work() {
    if (!builder_hangs_) {
      for (auto& [work, done] : std::exchange(building_, {})) {
        const absl::Status status = work();
        done(status);
      }
    }
    for (auto& [work, done] : std::exchange(work_, {})) {
      const absl::Status status = work();
      done(status);
    }
  }
  void run(int steps, const std::vector<ShardId>& wanting) {
    for (int i = 0; i < steps; ++i) step(wanting);
  }
  std::vector<std::string> on_disk_now() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) names.push_back(entry.path().filename().string());
    return names;
  }
  size_t told(const std::string& part) const {
    size_t count = 0;
    for (const std::string& line : told_) count += line.find(part) != std::string::npos ? 1 : 0;
    return count;
  }
  void create() { copies_ = std::make_unique<SnapshotCopies>(options_, *this, slots_); }

  const std::string directory_ = ::testing::TempDir() + "skua-snapshot-copy-" + std::to_string(::getpid());
  SnapshotCopies::Options options_;
  CopySlots slots_{2};
  TimeNs now_ = 0;
  NodeId source_ = kPrimary;
  bool connected_ = true;
  absl::Status refusal_;
  absl::Status verified_;
  EntryId end_ = {1000, 3};
  std::optional<uint64_t> real_index_;  // the database's, if it is not the announced one
  std::string runs_;                    // in the database
  std::vector<std::pair<std::string, std::string>> files_ = {
      {"000001.sst", std::string(350, 's')}, {"CURRENT", "MANIFEST-1\n"}, {"empty", ""}};
  std::optional<ReplicaPosition> position_ = ReplicaPosition{kPrimary, 20};
  uint64_t log_epoch_ = 3;  // of its entries
  uint64_t commit_index_ = 10;
  std::vector<ShardId> asked_;
  std::vector<std::pair<FetchChunk, Fetched>> requests_;
  std::vector<std::pair<FetchTail, Fetched>> tail_requests_;
  absl::Status tail_refusal_;
  uint64_t kept_from_ = 0;
  bool writes_ = false;               // an entry in each step
  std::vector<std::string> written_;  // entries behind the snapshot
  std::vector<std::string> built_;    // those that the database has
  bool builder_hangs_ = false;
  std::vector<std::pair<Work, Worked>> building_;
  std::vector<std::pair<Work, Worked>> work_;
  std::vector<ShardId> installed_;
  std::string path_;
  std::vector<std::string> told_;
  std::unique_ptr<SnapshotCopies> copies_;
};

TEST_F(SnapshotCopyTest, Wanted_CopiesAllFilesAndInstallsThem) {
  create();
  run(30, {kShard});
  ASSERT_EQ(installed_, std::vector<ShardId>{kShard});
  EXPECT_EQ(path_, directory_ + "/7-0");
  for (const auto& [name, bytes] : files_) {
    std::ifstream in(path_ + "/" + name, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), bytes) << name;
  }
  EXPECT_EQ(told("copied from node 5 index=1000 bytes=361"), 1U);
}

TEST_F(SnapshotCopyTest, Progress_CountsHowOftenThePrimaryHadToMakeTheSnapshotAnew) {
  files_[0].second = std::string(200'000, 's');
  options_.pull.bytes_per_s = 20'000;
  options_.pull.burst_bytes = 100;
  create();
  run(100, {kShard});
  refusal_ = absl::NotFoundError("this node does not have that snapshot any more");
  while (copies_->progress().at(0).started_over == 0) step({kShard});
  refusal_ = absl::OkStatus();
  run(100, {kShard});
  EXPECT_EQ(copies_->progress().at(0).started_over, 1U);
}

/// However long the files take, what is installed is as new as the primary lets it be.
TEST_F(SnapshotCopyTest, Tail_WhatIsWrittenMeanwhileIsInTheCopy) {
  writes_ = true;
  files_[0].second = std::string(200'000, 's');
  options_.pull.bytes_per_s = 20'000;
  options_.pull.burst_bytes = 100;
  create();
  run(900, {kShard});
  EXPECT_TRUE(installed_.empty());
  ASSERT_EQ(copies_->progress().size(), 1U);
  EXPECT_GT(copies_->progress()[0].tail_bytes, 500 * 10U);
  EXPECT_EQ(copies_->progress()[0].started_over, 0U);
  builder_hangs_ = true;
  run(200, {kShard});
  builder_hangs_ = false;
  for (int i = 0; i < 5000 && installed_.empty(); ++i) step({kShard});
  ASSERT_GT(built_.size(), written_.size() - 20);
  for (size_t i = 0; i < built_.size(); ++i) ASSERT_EQ(built_[i], written_[i]);
  EXPECT_EQ(told("index=" + std::to_string(end_.index + built_.size())), 1U);
}

TEST_F(SnapshotCopyTest, Build_ADatabaseThatIsNotTheAnnouncedOneIsNotInstalled) {
  real_index_ = uint64_t{1} << 60;
  create();
  run(30, {kShard});
  EXPECT_TRUE(installed_.empty());
  EXPECT_GE(told("was said to have 1000"), 1U);
  real_index_.reset();
  EpochHistory runs;
  for (int i = 0; i < 1001; ++i) runs.append(3);
  for (const std::string& bytes : {std::string("none"), encode_epoch_history(runs)}) {
    runs_ = bytes;
    run(3000, {kShard});
    EXPECT_TRUE(installed_.empty());
  }
  EXPECT_GE(told("is not of the data that it has"), 2U);
  runs.truncate(1000);
  runs_ = encode_epoch_history(runs);
  run(3000, {kShard});
  EXPECT_FALSE(installed_.empty());
}

TEST_F(SnapshotCopyTest, Tail_ABarrierOfAnotherLogIsNotTaken) {
  EpochHistory runs({end_.index, 3});
  for (int i = 0; i < 5; ++i) runs.append(4);
  written_.push_back(encode_barrier(as_byte_span(encode_epoch_history(runs))));
  create();
  run(300, {kShard});
  EXPECT_TRUE(installed_.empty());
  EXPECT_GE(told("a barrier tells of another log"), 1U);
}

TEST_F(SnapshotCopyTest, Tail_NotKeptAnyMoreStartsOverAndTellsHowOften) {
  create();
  kept_from_ = end_.index + 5;
  run(3000, {kShard});
  EXPECT_TRUE(installed_.empty());
  EXPECT_GE(told("does not keep what was written since"), 3U);
  EXPECT_EQ(told("started over 2 times"), 1U);
  end_.index = kept_from_;
  run(3000, {kShard});
  EXPECT_FALSE(installed_.empty());
}

TEST_F(SnapshotCopyTest, Tail_IsBounded) {
  options_.tail_bytes_max = 10'000;
  files_[0].second = std::string(200'000, 's');
  options_.pull.bytes_per_s = 20'000;
  options_.pull.burst_bytes = 100;
  writes_ = true;
  create();
  run(1500, {kShard});
  EXPECT_GE(told("more than are kept for a copy"), 1U);
}

TEST_F(SnapshotCopyTest, Tail_OfABuildThatDoesNotKnowIt) {
  tail_refusal_ = absl::UnimplementedError("no such method");
  create();
  run(30, {kShard});
  EXPECT_EQ(installed_, std::vector<ShardId>{kShard});
}

TEST_F(SnapshotCopyTest, Tail_LostRequestsAreRepeated) {
  tail_refusal_ = absl::UnavailableError("ask again");
  create();
  run(100, {kShard});
  EXPECT_TRUE(installed_.empty());
  tail_refusal_ = absl::OkStatus();
  run(300, {kShard});
  EXPECT_FALSE(installed_.empty());
}

TEST_F(SnapshotCopyTest, Wanted_NothingHappensWithoutAReplica) {
  create();
  position_.reset();
  run(100, {kShard});
  EXPECT_TRUE(asked_.empty());
}

TEST_F(SnapshotCopyTest, Begin_NotByAnOldWish) {
  create();
  position_.reset();
  run(10, {kShard});
  position_ = ReplicaPosition{kPrimary, 20};
  now_ += options_.begin_within_ns;
  copies_->tick(now_ + 1);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(SnapshotCopyTest, Silence_EndsTheCopyAndItsFiles) {
  create();
  run(10, {kShard});
  refusal_ = absl::UnavailableError("ask again");
  installed_.clear();
  create();  // the first one's copies end
  run(20, {kShard});
  EXPECT_EQ(copies_->count(), 1U);
  now_ += options_.wanted_for_ns;
  run(2, {});
  EXPECT_EQ(copies_->count(), 0U);
  EXPECT_EQ(told("not needed any more"), 1U);
  EXPECT_TRUE(installed_.empty());
  for (const std::string& name : on_disk_now()) EXPECT_EQ(name, "7-0");  // of the first
}

TEST_F(SnapshotCopyTest, NewPrimary_TheCopyBeginsAnew) {
  create();
  refusal_ = absl::UnavailableError("ask again");
  run(20, {kShard});
  source_ = 6;
  copies_->wanted(kShard, source_, now_);
  refusal_ = absl::OkStatus();
  position_->primary = 6;
  run(300, {kShard});
  EXPECT_EQ(told("another primary"), 1U);
  EXPECT_FALSE(installed_.empty());
}

TEST_F(SnapshotCopyTest, Slots_BoundTheCopies) {
  ASSERT_TRUE(slots_.take());
  create();
  refusal_ = absl::UnavailableError("ask again");
  run(20, {kShard, kOther});
  EXPECT_EQ(copies_->count(), 2U);
  for (const ShardId shard : asked_) EXPECT_EQ(shard, kShard);
  refusal_ = absl::OkStatus();
  run(300, {kOther});
  EXPECT_TRUE(std::ranges::count(installed_, kOther) > 0);
}

TEST_F(SnapshotCopyTest, NoConnection_AsksAgainWithPausesAndTells) {
  create();
  connected_ = false;
  run(3000, {kShard});
  EXPECT_GT(asked_.size(), 5U);
  EXPECT_LT(asked_.size(), 50U);
  EXPECT_GE(told("no connection"), 2U);
  EXPECT_LE(told_.size(), 5U);
  connected_ = true;
  run(300, {kShard});
  EXPECT_FALSE(installed_.empty());
}

TEST_F(SnapshotCopyTest, BadCopy_IsTriedAgainWithPausesThatGrow) {
  create();
  verified_ = absl::DataLossError("not what the manifest says");
  run(6000, {kShard});  // a minute
  EXPECT_GE(told("not what the manifest says"), 3U);
  EXPECT_LE(told("not what the manifest says"), 8U);
  EXPECT_TRUE(installed_.empty());
  verified_ = absl::OkStatus();
  run(12000, {kShard});
  EXPECT_FALSE(installed_.empty());
}

/// The replica has written, and perhaps acknowledged, more than the snapshot has.
TEST_F(SnapshotCopyTest, Install_NotOverALongerLog) {
  create();
  refusal_ = absl::UnavailableError("ask again");
  run(10, {kShard});
  position_->last_index = 1001;
  refusal_ = absl::OkStatus();
  run(20, {kShard});
  EXPECT_TRUE(installed_.empty());
  EXPECT_EQ(told("gone on meanwhile"), 1U);
  end_.index = 1001;
  run(1000, {kShard});
  EXPECT_FALSE(installed_.empty());
}

TEST_F(SnapshotCopyTest, Install_OverALongerLogOfAnotherEpoch) {
  position_->last_index = 2000;
  log_epoch_ = 2;
  create();
  run(30, {kShard});
  EXPECT_EQ(installed_, std::vector<ShardId>{kShard});
}

TEST_F(SnapshotCopyTest, Install_NotOverALongerLogIfTheEpochIsUnknown) {
  position_->last_index = 2000;
  end_.epoch = 0;
  create();
  run(30, {kShard});
  EXPECT_TRUE(installed_.empty());
}

TEST_F(SnapshotCopyTest, Install_NotBehindWhatIsCommittedHere) {
  commit_index_ = 1001;
  position_->last_index = 900;
  create();
  run(30, {kShard});
  EXPECT_TRUE(installed_.empty());
}

TEST_F(SnapshotCopyTest, CancelAll_NothingFollows) {
  create();
  run(5, {kShard});
  copies_->tick(now_);
  copies_->cancel_all();
  answer();
  run(50, {kShard});
  EXPECT_TRUE(installed_.empty());
  EXPECT_EQ(copies_->count(), 0U);
  EXPECT_TRUE(on_disk_now().empty());
}

}  // namespace
}  // namespace skua::kv
