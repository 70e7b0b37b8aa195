#include "kvstore/client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/key_hash.h"
#include "tests/kvstore/client/threaded_cluster.h"

namespace skua::kv {
namespace {

std::unique_ptr<Client> make_client(ThreadedCluster& cluster, ClientOptions options = {}) {
  auto client = Client::create_over(
      [&cluster, options]() -> absl::StatusOr<std::unique_ptr<AsyncClient>> { return cluster.make_client(options); });
  EXPECT_TRUE(client.ok());
  return std::move(*client);
}

TEST(Create, PassesOnWhyItFailed) {
  EXPECT_EQ(Client::create({.operations_max = 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Client, DoesEachOperation) {
  ThreadedCluster cluster(2, 4);
  auto client = make_client(cluster);
  const WriteResult written = client->put("t", "ada", "1815", {.if_absent = true});
  ASSERT_TRUE(written.ok()) << written.status;
  const ReadResult read = client->get("t", "ada");
  EXPECT_EQ(read.value, "1815");
  EXPECT_EQ(read.version, written.version);
  EXPECT_EQ(client->get("t", "bob").status.code(), absl::StatusCode::kNotFound);

  const FieldUpdate fields[] = {{"born", "1815"}};
  EXPECT_TRUE(client->patch("t", "row", fields, {.create_if_missing = true}).ok());
  const std::string_view keys[] = {"ada", "bob", "row"};
  const std::vector<ReadResult> many = client->multi_get("t", keys);
  ASSERT_EQ(many.size(), 3u);
  EXPECT_EQ(many[0].value, "1815");
  EXPECT_EQ(many[1].status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(many[2].ok());

  const RowsResult rows = client->scan("t", {.limit = 1});
  ASSERT_EQ(rows.rows.size(), 1u);
  EXPECT_EQ(rows.rows[0].key, "ada");
  EXPECT_TRUE(rows.has_more);
  EXPECT_EQ(client->scan("t", {.start = rows.next_start}).rows.size(), 1u);

  EXPECT_FALSE(rows.tokens.empty());

  EXPECT_EQ(client->add("t", "n", 41).value, 41);
  const WriteResult added = client->add("t", "n", 1, {.durability = Durability::kFlush});
  EXPECT_EQ(added.value, 42);
  EXPECT_EQ(added.durability, Durability::kFlush);
  EXPECT_EQ(client->get("t", "n", {.at_least = added.token}).value, "42");
  EXPECT_TRUE(client->append("t", "n", "0").ok());
  EXPECT_TRUE(client->expire("t", "n", std::chrono::seconds(9)).ok());
  EXPECT_EQ(client->get("t", "n", {.with_ttl = true}).ttl, std::chrono::seconds(9));
  const BatchResult batch = client->batch("t", Batch().add("n", 1).append("n", "1"));
  EXPECT_TRUE(batch.ok()) << batch.status;
  EXPECT_EQ(batch.ops.size(), 2u);
  EXPECT_EQ(client->get("t", "n").value, "4211");

  EXPECT_TRUE(client->remove("t", "ada", {.if_version = written.version}).ok());
  EXPECT_EQ(client->get("t", "ada").status.code(), absl::StatusCode::kNotFound);
  EXPECT_GT(client->counters().operations_ok, 5u);
}

TEST(Client, TellsAnswersOfANodeFromFailures_ForEachKeyOfMultiGet) {
  ThreadedCluster cluster(2, 2);
  auto client = make_client(cluster);
  const auto key_of = [](uint32_t shard) {
    for (int i = 0;; ++i) {
      if (std::string key = absl::StrCat("key", i); KeyPlacement{2}.shard_of(key) == shard) return key;
    }
  };
  const std::string served = key_of(0);
  const std::string lost = key_of(1);
  ASSERT_TRUE(client->put("t", served, "v").ok());
  cluster.on_node(1, [](FakeNode& node) { node.owned.clear(); });
  const std::string_view keys[] = {served, "nobody{x}", lost};
  const std::vector<ReadResult> many = client->multi_get("t", keys, {.timeout = std::chrono::milliseconds(300)});
  ASSERT_EQ(many.size(), 3u);
  EXPECT_EQ(many[0].value, "v");
  EXPECT_EQ(many[0].detail, nullptr);
  EXPECT_FALSE(many[2].ok());
  EXPECT_NE(many[2].detail, nullptr) << "no node has answered";
}

TEST(Client, TellsRefusalsInTheResult) {
  ThreadedCluster cluster(1, 1);
  auto client = make_client(cluster);
  EXPECT_EQ(client->get("t", "").status.code(), absl::StatusCode::kInvalidArgument);
  const std::vector<std::string_view> none;
  EXPECT_TRUE(client->multi_get("t", none).empty());
  const std::string_view keys[] = {"a", ""};
  const std::vector<ReadResult> refused = client->multi_get("t", keys);
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(Client, IsSharedByThreads) {
  ThreadedCluster cluster(2, 4);
  auto client = make_client(cluster);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = absl::StrCat("key", t, "-", i);
        EXPECT_TRUE(client->put("t", key, key).ok());
        EXPECT_EQ(client->get("t", key).value, key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(client->scan("t", {.limit = 1000}).rows.size(), 200u);
}

}  // namespace
}  // namespace skua::kv
