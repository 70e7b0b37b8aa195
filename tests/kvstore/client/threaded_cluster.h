// Nodes over TCP loopback, each on a thread of its own, and a control plane that is a struct: for tests of the client's
// threads, sockets and coroutines.
#ifndef SKUA_TESTS_KVSTORE_CLIENT_THREADED_CLUSTER_H_
#define SKUA_TESTS_KVSTORE_CLIENT_THREADED_CLUSTER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/client/async_client.h"
#include "kvstore/client/async_client_impl.h"
#include "rpc/base/check.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "tests/kvstore/client/fake_cluster.h"

namespace skua::kv {

class ThreadedCluster {
 public:
  explicit ThreadedCluster(uint32_t node_count, uint32_t shard_count) {
    control.set_threaded();
    std::vector<FakeNode*> nodes;
    std::vector<uint32_t> owners;
    for (uint32_t i = 0; i < node_count; ++i) {
      nodes_.push_back(std::make_unique<Runner>(i));
      nodes.push_back(&nodes_.back()->node);
      control.attach(*nodes.back());
    }
    for (uint32_t i = 0; i < shard_count; ++i) owners.push_back(i % node_count);
    control.publish(nodes, owners, 1);
    for (auto& runner : nodes_) runner->start();
  }
  ~ThreadedCluster() {
    for (auto& runner : nodes_) runner->stop();
  }

  /// Runs on the calling thread, which becomes the client's.
  std::unique_ptr<AsyncClient> make_client(ClientOptions options = {}) {
    auto transport = make_client_transport(next_seed_++);
    SKUA_CHECK(transport.ok(), "no transport");
    options.seed = 1;
    return std::make_unique<AsyncClient>(std::make_unique<AsyncClient::Impl>(
        std::make_unique<SteadyClock>(), std::move(*transport), control.access(), options, draw_client_id()));
  }

  /// Runs `use` with a node on its thread, and waits for it.
  void on_node(uint32_t index, std::function<void(FakeNode&)> use) {
    std::atomic<bool> done{false};
    SKUA_CHECK(nodes_[index]->node.endpoint().post([&] {
      use(nodes_[index]->node);
      done.store(true);
      done.notify_one();
    }),
               "the node's mailbox is full");
    done.wait(false);
  }

  FakeControl control;

 private:
  struct Runner {
    explicit Runner(uint32_t index)
        : node("node" + std::to_string(index), 1, make_transport(index), clock, std::make_shared<FakeStore>()) {}

    static std::unique_ptr<rpc::Transport> make_transport(uint32_t index) {
      rpc::TcpOptions options;
      options.listen_ip = "127.0.0.1";
      options.self.uuid.bytes[15] = static_cast<uint8_t>(index + 1);
      options.self.incarnation = 1;
      auto made = rpc::TcpTransport::create(std::move(options));
      SKUA_CHECK(made.ok(), "no port");
      return std::move(*made);
    }
    void start() {
      thread = std::thread([this] {
        node.endpoint().adopt_thread();
        while (!stopping.load()) node.endpoint().poll_or_wait(10 * kMillisecond);
      });
    }
    void stop() {
      stopping.store(true);
      thread.join();
      node.endpoint().adopt_thread();
    }

    SteadyClock clock;
    FakeNode node;
    std::atomic<bool> stopping{false};
    std::thread thread;
  };

  std::vector<std::unique_ptr<Runner>> nodes_;
  std::atomic<uint64_t> next_seed_{1000};
};

}  // namespace skua::kv

#endif  // SKUA_TESTS_KVSTORE_CLIENT_THREADED_CLUSTER_H_
