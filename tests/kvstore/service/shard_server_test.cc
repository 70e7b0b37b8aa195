#include "kvstore/service/shard_server.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "rpc/base/rng.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_get;
using testing::encoded_mutation;
using testing::kRoute;
using testing::RocksdbServerTest;
using testing::TwinShard;

/// A mutation as a request.
std::pair<Method, std::string> encoded(const Mutation& m) {
  return {method_of(m.kind), encoded_mutation({kRoute, m})};
}

struct PendingWrite {
  Mutation mutation;
  std::shared_ptr<Answer> answer;
};

TEST_F(RocksdbServerTest, Any_PipelinedMixAgreesWithAMap) {
  // Requests of one session may overtake each other, so a round writes each key once at most; the
  // versions that come back tell the order of the writes that took effect.
  TwinShard twin;
  testing::MutationMaker maker(Rng(11));
  size_t took_effect = 0;
  for (int round = 0; round < 60; ++round) {
    maker.clear();
    world_->set_time(testing::g_unix_ms + 10);
    std::map<std::string, PendingWrite> writes;
    for (int i = 0; i < 40; ++i) {
      const Mutation m = maker.make([&](std::string_view key) {
        const auto* row = twin.find(key);
        return row == nullptr ? uint64_t{1} : row->version;
      });
      if (writes.contains(std::string(m.key))) continue;
      const auto [method, request] = encoded(m);
      writes[std::string(m.key)] = {m, world_->send(method, request)};
      world_->send(Method::kGet, encoded_get(kRoute, m.key));
    }
    world_->wait_for_answers();
    std::map<uint64_t, PendingWrite> effective;
    for (const auto& [key, write] : writes) {
      const ReplyHead head = write.answer->head();
      if (head.status == KvStatus::kOk) {
        effective[head.version] = write;
      } else {
        const MutationResult result = twin.apply(write.mutation, testing::g_unix_ms);
        ASSERT_EQ(result, (MutationResult{head.status, head.version})) << key;
      }
    }
    took_effect += effective.size();
    for (const auto& [version, write] : effective) {
      const MutationResult result = twin.apply(write.mutation, testing::g_unix_ms);
      ASSERT_EQ(result.status, KvStatus::kOk);
      ASSERT_EQ(result.version, version);
    }
    for (int i = 0; i < 30; ++i) {
      const std::string key = "key" + std::to_string(i);
      const Answer answer = get(key);
      const auto* row = twin.find(key, testing::g_unix_ms);
      ASSERT_EQ(answer.status(), row == nullptr ? KvStatus::kNotFound : KvStatus::kOk);
      if (row != nullptr) {
        ASSERT_EQ(answer.value(), row->value);
      }
    }
  }
  const WorkerStats stats = world_->server().stats();
  EXPECT_EQ(stats.requests.commit_groups.sum, took_effect);
  EXPECT_LT(stats.requests.commit_groups.count, took_effect) << "writes should share commits";
}

}  // namespace
}  // namespace skua::kv
