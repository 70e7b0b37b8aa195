// GroupsTest: a client of one node, for tests of groups (get_groups.h, put_groups.h). The node's requests are counted by
// method.
#ifndef SKUA_TESTS_KVSTORE_GATEWAY_GROUPS_TESTING_H_
#define SKUA_TESTS_KVSTORE_GATEWAY_GROUPS_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/kvstore/client/threaded_cluster.h"

namespace skua::kv::gateway {

class GroupsTest : public ::testing::Test {
 protected:
  void start_cluster(uint32_t shard_count) {
    cluster_ = std::make_unique<ThreadedCluster>(1, shard_count);
    cluster_->on_node(0, [this](FakeNode& node) {
      node.script = [this](rpc::IncomingCall& call) {
        ++calls_[static_cast<Method>(call.method)];
        if (refuses_) FakeNode::reply_error(call, KvStatus::kPermissionDenied, "no");
        return refuses_.load();
      };
    });
    client_ = cluster_->make_client();
  }

  void warm_up() { ASSERT_TRUE(client_->warm_up(table_, std::chrono::seconds(60)).ok()); }
  /// The requests that came until now.
  [[nodiscard]] std::map<Method, size_t> calls() {
    std::map<Method, size_t> calls;
    cluster_->on_node(0, [&](FakeNode& /*node*/) { calls = calls_; });
    return calls;
  }

  const std::string table_ = "t";
  std::atomic<bool> refuses_{false};  // the node refuses all requests

 private:
  std::map<Method, size_t> calls_;  // the node's thread, which ends with the cluster

 protected:
  std::unique_ptr<ThreadedCluster> cluster_;
  std::unique_ptr<AsyncClient> client_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_TESTS_KVSTORE_GATEWAY_GROUPS_TESTING_H_
