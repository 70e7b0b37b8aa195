// What a replica makes of a log that others claim: of its data's history, and of barriers that tell of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/replica_rows.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/quiet_replica_host.h"

namespace skua::kv {
namespace {

using testing::FakeDbEngine;
using testing::ServerWorld;

constexpr ShardId kShard{3, 1};
constexpr NodeId kPrimary = 1;
constexpr NodeId kSelf = 2;

struct Host final : testing::QuietReplicaHost {
  void replica_failed(ShardId, const absl::Status&) override {}
};

ShardServer::Options options_with(ReplicaHost& host) {
  ShardServer::Options options;
  options.replica_host = &host;
  return options;
}

class ClaimedLogsTest : public ::testing::Test {
 protected:
  /// The shard's data, up to `applied`, and the last barrier's record of who wrote it.
  void serve(const EpochHistory& runs, uint64_t applied) {
    const std::string key = replica_runs_key();
    const std::string bytes = encode_epoch_history(runs);
    const AppliedEffect row{key, as_byte_span(bytes), runs.last_index(), 0};
    {
      auto db = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
      ASSERT_TRUE(db->apply(std::span(&row, 1), applied).ok());
    }
    serve();
  }
  void serve() {
    db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
    server_.shards().expect(kShard, 1);
    server_.shards().serve_replica(kShard, *db_, {kSelf, 1}, {});
  }
  void adopt(uint64_t epoch) {
    View view;
    view.epoch = view.change = epoch;
    view.primary = kPrimary;
    view.members = {{kPrimary, 1}, {kSelf, 1}};
    server_.shards().set_view(kShard, view);
    for (const uint64_t persisted : std::exchange(host_.to_persist, {}))
      server_.shards().view_persisted(kShard, persisted);
  }
  /// A barrier behind `prev`. How far the log is then.
  uint64_t say_barrier(EntryId prev, uint64_t epoch, const EpochHistory& runs) {
    const std::string payload = encode_barrier(as_byte_span(encode_epoch_history(runs)));
    const ReplicaEntry entry{prev.index + 1, epoch, 1'000'000, Durability::kSync, as_byte_span(payload)};
    EXPECT_FALSE(absl::IsNotFound(server_.on_replica_message(
        kShard, {kPrimary, 1}, Append{epoch, prev, {epoch}, 0, false}, std::span(&entry, 1))));
    return server_.shards().replica(kShard)->last_index();
  }

  FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_;
  Host host_;
  ServerWorld world_{options_with(host_)};
  ShardServer& server_ = world_.server();
};

/// As in a copy of a primary that counts as it likes.
TEST_F(ClaimedLogsTest, DataFarBehindTheLastBarrierAreOpenedAtOnce) {
  EpochHistory runs;
  runs.append(4);
  constexpr uint64_t kFar = uint64_t{1} << 60;
  serve(runs, kFar);
  ASSERT_NE(server_.shards().replica(kShard), nullptr);
  EXPECT_EQ(server_.shards().replica(kShard)->log().last(), (EntryId{kFar, 4}));
}

TEST_F(ClaimedLogsTest, ARecordThatIsAheadOfTheDataIsRefused) {
  EpochHistory runs;
  for (int i = 0; i < 5; ++i) runs.append(4);
  serve(runs, 4);
  EXPECT_EQ(server_.shards().replica(kShard), nullptr) << "it would acknowledge what it does not have";
  const WorkerStats stats = server_.stats();
  ASSERT_EQ(stats.troubled.size(), 1U) << "the node's status says so";
  EXPECT_EQ(stats.troubled[0].id, kShard);
  EXPECT_TRUE(absl::IsDataLoss(stats.troubled[0].failure)) << stats.troubled[0].failure;
}

TEST_F(ClaimedLogsTest, DataThatNobodyHasWrittenAreRefused) {
  EpochHistory runs;
  runs.append(4);
  serve(runs, EpochHistory::kIndexMax + 1);
  EXPECT_EQ(server_.shards().replica(kShard), nullptr);
}

/// The next life believes what the barrier says.
TEST_F(ClaimedLogsTest, ABarrierOfAnotherLogIsNotTaken) {
  serve();
  adopt(1);
  EpochHistory longer;
  for (int i = 0; i < 100; ++i) longer.append(1);
  EXPECT_EQ(say_barrier({0, 0}, 1, longer), 0U);
  EpochHistory later;
  later.append(2);
  EXPECT_EQ(say_barrier({0, 0}, 1, later), 0U);
  EXPECT_EQ(say_barrier({0, 0}, 1, EpochHistory()), 0U);
  EpochHistory honest;
  honest.append(1);
  EXPECT_EQ(say_barrier({0, 0}, 1, honest), 1U) << "and nothing of it stays";
}

}  // namespace
}  // namespace skua::kv
