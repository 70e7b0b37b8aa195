// A control plane in this process, over real gRPC on an ephemeral port, that can be killed and brought back.
#ifndef SKUA_TESTS_CONTROL_CLIENT_CONTROL_HARNESS_H_
#define SKUA_TESTS_CONTROL_CLIENT_CONTROL_HARNESS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "control/client/admin_client.h"
#include "control/client/node_agent.h"
#include "control/server/control_server.h"
#include "control/store/embedded_store.h"
#include "tests/app/free_port.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/fake_probe.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {

class ControlHarness {
 public:
  explicit ControlHarness(uint32_t suspect_after_ms = 600'000) : suspect_after_ms_(suspect_after_ms) { start(); }

  void start() {
    auto store = open_embedded_store({.directory = dir_.path()});
    ASSERT_TRUE(store.ok()) << store.status();
    ControlServerOptions options;
    options.listen_address = address_;
    options.fresh_cluster_id = fresh_id_;
    options.heartbeat_interval_ms = 20;
    options.suspect_after_ms = suspect_after_ms_;
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    auto server = ControlServer::start(options, *std::move(store));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void stop() { server_.reset(); }
  /// Comes back empty, as another cluster.
  void lose_everything() {
    stop();
    std::filesystem::remove_all(dir_.path());
    fresh_id_ = test_uuid(0xfeed);
  }

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  const uint32_t suspect_after_ms_;
  TempDir dir_;
  const std::string address_ = app::free_address();
  std::string fresh_id_ = kClusterId;
  std::unique_ptr<ControlServer> server_;
};

/// An agent for test_node(n, incarnation), not started.
inline NodeAgentOptions agent_options(const ControlHarness& control, uint64_t n, uint64_t incarnation = 1) {
  NodeAgentOptions options;
  options.control_address = control.address();
  options.node = test_node(n, incarnation);
  options.duplicate_grace_ns = 0;
  options.goodbye_timeout_ns = kGenerous;  // what was not heard would be noticed much later
  return options;
}

/// A registered node.
inline std::unique_ptr<NodeAgent> start_node(const ControlHarness& control, uint64_t n) {
  auto agent = std::make_unique<NodeAgent>(agent_options(control, n));
  agent->start();
  const auto registration = agent->wait_registered(kGenerous);
  EXPECT_TRUE(registration.ok()) << registration.status();
  return agent;
}

inline Liveness liveness_of(AdminClient& admin, uint64_t n) {
  const auto status = admin.status();
  if (!status.ok()) return Liveness::kUnknown;
  for (const auto& node : status->nodes) {
    if (node.info.uuid == test_uuid(n)) return node.liveness;
  }
  return Liveness::kUnknown;
}

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_CLIENT_CONTROL_HARNESS_H_
