#include "kvstore/client/awaitable.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kvstore/client/threaded_cluster.h"

namespace skua::kv {
namespace {

Task<uint64_t> rename(AwaitableClient client, std::string from, std::string to) {
  GetResult old = co_await client.get("t", from);
  if (!old.ok()) co_return 0;
  const WriteResult moved = co_await client.put("t", to, old.value.bytes(), {.if_absent = true});
  if (!moved.ok()) co_return 0;
  co_await client.remove("t", from, {.if_version = old.version});
  co_return moved.version;
}

Task<void> fill(AwaitableClient client, std::string prefix, int count) {
  for (int i = 0; i < count; ++i) {
    const WriteResult result = co_await client.put("t", absl::StrCat(prefix, i), absl::StrCat("v", i));
    EXPECT_TRUE(result.ok()) << result.status;
  }
}

Task<size_t> count_rows(AwaitableClient client) {
  size_t count = 0;
  std::string start;
  for (bool more = true; more;) {
    ScanResult page = co_await client.scan("t", {.start = start, .limit = 7});
    EXPECT_TRUE(page.ok());
    count += page.rows.size();
    more = page.has_more;
    start = page.next_start;
  }
  co_return count;
}

Task<std::vector<std::string>> read_all(AwaitableClient client, std::vector<std::string> keys) {
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  MultiGetResult result = co_await client.multi_get("t", views);
  std::vector<std::string> values;
  for (const KeyResult& entry : result.entries) values.emplace_back(entry.value);
  co_return values;
}

Task<absl::Status> refused(AwaitableClient client) {
  const GetResult result = co_await client.get("t", "");
  co_return result.status;
}

Task<int> nested(AwaitableClient client, int depth) {
  if (depth == 0) {
    co_await fill(client, "deep", 1);
    co_return 0;
  }
  co_return 1 + co_await nested(client, depth - 1);
}

Task<int64_t> count(AwaitableClient client, std::string key) {
  co_await client.add("t", key, 40);
  co_await client.append("t", key, "0");
  const BatchResult batch = co_await client.batch("t", Batch().add(key, 1).add(key, 1));
  const WriteResult expiring = co_await client.expire("t", key, std::chrono::seconds(1));
  EXPECT_TRUE(expiring.ok()) << expiring.status;
  co_return batch.ok() ? batch.ops.back().value : -1;
}

TEST(Run, AwaitsEachOperationThatWrites) {
  ThreadedCluster cluster(1, 2);
  auto client = cluster.make_client();
  EXPECT_EQ(run(*client, count(*client, "n")), 402);
}

TEST(Run, AwaitsOneOperationAfterTheOther) {
  ThreadedCluster cluster(2, 4);
  auto client = cluster.make_client();
  run(*client, fill(*client, "a", 1));
  EXPECT_GT(run(*client, rename(*client, "a0", "b0")), 0u);
  EXPECT_EQ(run(*client, rename(*client, "a0", "b0")), 0u);
  const std::vector<std::string> values = run(*client, read_all(*client, {"b0", "a0"}));
  EXPECT_EQ(values, (std::vector<std::string>{"v0", ""}));
}

TEST(Start, RunsTasksSideBySide) {
  ThreadedCluster cluster(2, 4);
  auto client = cluster.make_client();
  std::vector<Task<void>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(fill(*client, absl::StrCat("p", i, "-"), 10));
  for (Task<void>& task : tasks) task.start();
  EXPECT_EQ(client->in_flight(), 10u);
  for (Task<void>& task : tasks) {
    while (!task.done()) client->poll(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(run(*client, count_rows(*client)), 100u);
}

TEST(Await, ARefusalIsAResult) {
  ThreadedCluster cluster(1, 1);
  auto client = cluster.make_client();
  EXPECT_EQ(run(*client, refused(*client)).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Await, Nests) {
  ThreadedCluster cluster(1, 1);
  auto client = cluster.make_client();
  EXPECT_EQ(run(*client, nested(*client, 500)), 500);
}

TEST(Task, ThatWasNeverBegunIsDestroyed) {
  ThreadedCluster cluster(1, 1);
  auto client = cluster.make_client();
  const Task<void> never = fill(*client, "x", 1);
  EXPECT_EQ(client->in_flight(), 0u);
}

}  // namespace
}  // namespace skua::kv
