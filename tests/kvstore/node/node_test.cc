// A node with a real control plane and the client library, all in this process, over TCP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "app/uuid.h"
#include "control/client/admin_client.h"
#include "control/server/control_server.h"
#include "control/store/embedded_store.h"
#include "kvstore/client/client.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/node/node.h"
#include "tests/app/free_port.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"
#include "tests/kvstore/node/test_node.h"
#include "tests/kvstore/worker/pipe_loop.h"

namespace skua::kv {
namespace {

using control::eventually;
using ::testing::HasSubstr;
using testing::TestNode;

/// A control plane that can go away and come back.
class Control {
 public:
  Control() { start(); }
  void start() {
    control::ControlServerOptions options;
    options.listen_address = address_;
    options.fresh_cluster_id = fresh_cluster_id_;
    options.heartbeat_interval_ms = 20;
    options.suspect_after_ms = 600'000;
    auto store = control::open_embedded_store({.directory = directory_.path() + "/metadata"});
    ASSERT_TRUE(store.ok()) << store.status();
    auto server = control::ControlServer::start(options, *std::move(store));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void stop() { server_.reset(); }
  /// Comes back as the control plane of another cluster.
  void lose_everything() {
    stop();
    std::filesystem::remove_all(directory_.path() + "/metadata");
    fresh_cluster_id_ = app::random_uuid();
  }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  control::TempDir directory_;
  const std::string address_ = app::free_address();
  std::string fresh_cluster_id_ = app::random_uuid();
  std::unique_ptr<control::ControlServer> server_;
};

std::vector<std::string> failed_checks(const std::vector<HealthCheck>& checks) {
  std::vector<std::string> failed;
  for (const HealthCheck& check : checks) {
    if (!check.passes) failed.push_back(check.name);
  }
  return failed;
}

class NodeTest : public ::testing::Test {
 protected:
  NodeTest() {
    EXPECT_TRUE(node_.start().ok());
    client_ = Client::create({.control_address = control_.address(), .timeout = std::chrono::seconds(60)}).value();
  }

  void create_table(const std::string& name, uint32_t shards = 4) {
    control::AdminClient admin(control_.address());
    absl::StatusOr<control::CreatedTable> created;
    // A node that joins is not there at once.
    EXPECT_TRUE(eventually([&] {
      created =
          admin.create_table({.name = name, .shard_count = shards, .if_not_exists = true, .wait_ready_ms = 30'000});
      return created.ok();
    })) << created.status();
    EXPECT_TRUE(created.ok() && created->ready);
  }
  void put(const std::string& key, std::string_view value) {
    const WriteResult result = client_->put("t", key, value);
    EXPECT_TRUE(result.status.ok()) << result.status;
  }
  std::string get(const std::string& key) {
    const ReadResult result = client_->get("t", key);
    return result.status.ok() ? result.value : result.status.ToString();
  }

  Control control_;
  TestNode node_{control_.address(), 2};
  std::unique_ptr<Client> client_;
};

TEST_F(NodeTest, Start_ServesEveryOperation) {
  create_table("t");
  put("key", "value");
  EXPECT_EQ(get("key"), "value");
  EXPECT_TRUE(absl::IsNotFound(client_->get("t", "none").status));
  EXPECT_TRUE(absl::IsAlreadyExists(client_->put("t", "key", "2", {.if_absent = true}).status));
  const FieldUpdate field{"f", "1"};
  EXPECT_TRUE(client_->patch("t", "row", std::span(&field, 1), {.create_if_missing = true}).status.ok());
  for (int i = 0; i < 50; ++i) put("scan" + std::to_string(100 + i), std::to_string(i));
  const RowsResult rows = client_->scan("t", {.start = "scan110", .end = "scan120", .limit = 100});
  ASSERT_TRUE(rows.status.ok()) << rows.status;
  ASSERT_EQ(rows.rows.size(), 10u);
  EXPECT_EQ(rows.rows.front().key, "scan110");
  const std::vector<std::string_view> keys = {"scan101", "none", "scan149"};
  const auto results = client_->multi_get("t", keys);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].value, "1");
  EXPECT_TRUE(absl::IsNotFound(results[1].status));
  EXPECT_EQ(results[2].value, "49");
  EXPECT_TRUE(client_->remove("t", "key").status.ok());
  EXPECT_TRUE(absl::IsNotFound(client_->get("t", "key").status));
}

TEST_F(NodeTest, Host_TheWorkerServesBesideTheLoopAndAfterIt) {
  create_table("t");
  testing::PipeLoop none;
  EXPECT_TRUE(absl::IsUnavailable(node_.host(2, none).status()));
  for (int round = 0; round < 2; ++round) {
    testing::PipeLoop loop;
    absl::StatusOr<std::future<void>> end = node_.host(1, loop);
    ASSERT_TRUE(end.ok()) << end.status();
    for (int i = 0; i < 100; ++i) put("key" + std::to_string(i), "value" + std::to_string(i));
    loop.tell();
    loop.wait_until_told(1);
    EXPECT_TRUE(node_.is_alive());
    loop.end();
    end->wait();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(get("key" + std::to_string(i)), "value" + std::to_string(i));
  }
}

TEST_F(NodeTest, Start_LargeValues) {
  create_table("t");
  for (const size_t size : {size_t{100'000}, kValueBytesMax}) {
    const std::string value(size, 'v');
    put("large", value);
    EXPECT_TRUE(get("large") == value) << size;
  }
}

TEST_F(NodeTest, Restart_KeepsWhatWasAcknowledgedAndTheClientGoesOn) {
  create_table("t");
  for (int i = 0; i < 100; ++i) put("key" + std::to_string(i), std::to_string(i));
  const uint64_t before = node_.incarnation();
  node_.stop();
  ASSERT_TRUE(node_.start().ok());
  EXPECT_EQ(node_.incarnation(), before + 1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(get("key" + std::to_string(i)), std::to_string(i));
  put("key0", "again");
  EXPECT_EQ(get("key0"), "again");
}

TEST_F(NodeTest, Restart_UnderLoadLosesNoAcknowledgedWrite) {
  create_table("t");
  std::atomic<bool> stop{false};
  std::atomic<int> acknowledged{0};
  std::vector<std::string> newest(8);
  std::vector<std::thread> writers;
  for (size_t w = 0; w < newest.size(); ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; !stop; ++i) {
        const WriteResult result = client_->put("t", "w" + std::to_string(w), std::to_string(i));
        // A write that was cut off may or may not be there; the next one that is acknowledged decides.
        if (!result.status.ok()) continue;
        newest[w] = std::to_string(i);
        ++acknowledged;
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return node_.applied_revision() > 0; }));
  for (int round = 0; round < 3; ++round) {
    // So that there is something to lose.
    EXPECT_TRUE(eventually([&, before = acknowledged.load()] { return acknowledged >= before + 40; }));
    node_.stop();
    ASSERT_TRUE(node_.start().ok());
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  for (size_t w = 0; w < newest.size(); ++w) {
    if (!newest[w].empty()) {
      EXPECT_GE(std::stoi(get("w" + std::to_string(w))), std::stoi(newest[w]));
    }
  }
}

TEST_F(NodeTest, ControlPlaneDown_RunningClientsGoOn) {
  create_table("t");
  put("key", "1");
  control_.stop();
  put("key", "2");
  EXPECT_EQ(get("key"), "2");
  control_.start();
  create_table("t2");
  EXPECT_TRUE(client_->put("t2", "key", "3").status.ok());
}

TEST_F(NodeTest, ControlPlaneDown_ANodeThatRestartsServesWhenItIsBack) {
  create_table("t");
  put("key", "1");
  node_.stop();
  control_.stop();
  ASSERT_TRUE(node_.start().ok());
  control_.start();
  EXPECT_EQ(get("key"), "1");
}

TEST_F(NodeTest, DropTable_DeletesItsDataOnly) {
  create_table("t", 2);
  create_table("gone", 3);
  put("key", "1");
  EXPECT_TRUE(client_->put("gone", "key", "1").status.ok());
  EXPECT_EQ(node_.directory_count(), 5u);
  ASSERT_TRUE(control::AdminClient(control_.address()).drop_table("gone").ok());
  EXPECT_TRUE(eventually([&] { return node_.directory_count() == 2; }));
  EXPECT_EQ(get("key"), "1");
}

TEST_F(NodeTest, Metrics_CountRequestsByWorker) {
  create_table("t");
  for (int i = 0; i < 20; ++i) put("key" + std::to_string(i), "v");
  const auto text = node_.metrics();
  EXPECT_THAT(text, HasSubstr("skua_requests_total{worker=\"0\",method=\"PUT\",status=\"OK\"}"));
  EXPECT_THAT(text, HasSubstr("skua_requests_total{worker=\"1\",method=\"PUT\",status=\"OK\"}"));
  EXPECT_THAT(text, HasSubstr("skua_requests_total{worker=\"1\",method=\"SCAN\",status=\"WRONG_SHARD\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("skua_worker_up{worker=\"0\"} 1\nskua_worker_up{worker=\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nskua_starting 0\n"));
}

TEST(StartingNode, MetricsSayThatItStarts) {
  EXPECT_THAT(metrics_of_starting_node(), AllOf(HasSubstr("\nskua_ready 0\n"), HasSubstr("\nskua_starting 1\n")));
}

TEST_F(NodeTest, Readiness_NamesWhatIsMissing) {
  create_table("t");
  EXPECT_TRUE(node_.is_alive());
  EXPECT_TRUE(eventually([&] { return failed_checks(node_.readiness()).empty(); }));
  node_.stop();
  control_.stop();
  ASSERT_TRUE(node_.start().ok());
  EXPECT_THAT(failed_checks(node_.readiness()), ::testing::ElementsAre("registered", "map-applied"));
  EXPECT_TRUE(node_.is_alive());
  control_.start();
  EXPECT_TRUE(eventually([&] { return failed_checks(node_.readiness()).empty(); }));
}

TEST_F(NodeTest, Start_IsRefusedByAnotherCluster) {
  create_table("t");
  node_.stop();
  control_.lose_everything();
  control_.start();
  ASSERT_TRUE(node_.start().ok());
  EXPECT_TRUE(eventually([&] { return !node_.fatal().ok(); }));
  EXPECT_EQ(node_.fatal().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(node_.directory_count(), 4u);
}

}  // namespace
}  // namespace skua::kv
