// A storage node in this process, with a data directory of its own, for tests that also use the client
// library. Hides the node's headers from them.
#ifndef SKUA_TESTS_KVSTORE_NODE_TEST_NODE_H_
#define SKUA_TESTS_KVSTORE_NODE_TEST_NODE_H_

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/credentials.h"
#include "rpc/base/health_check.h"
#include "rpc/base/hosted_loop.h"

namespace skua::kv::testing {

/// Processes come and go on one data directory, at one gRPC address; sessions run over TCP on free
/// ports. Thread: one, but for what is marked.
class TestNode {
 public:
  TestNode(std::string control_address, uint32_t workers);
  ~TestNode();
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  /// What the node shows others from the next start on: `issue` gets its uuid. Without, it has no certificate.
  void use_credentials(std::function<control::CredentialsPtr(const std::string& uuid)> issue);

  /// A new process: Node::start()'s errors.
  absl::Status start();
  void stop();

  [[nodiscard]] std::string grpc_address() const;
  [[nodiscard]] uint64_t incarnation() const;
  /// Thread: any.
  [[nodiscard]] uint64_t applied_revision() const;
  [[nodiscard]] std::string metrics();
  [[nodiscard]] std::vector<HealthCheck> readiness();
  [[nodiscard]] bool is_alive();
  /// Node::host(). Thread: any.
  [[nodiscard]] absl::StatusOr<std::future<void>> host(uint32_t worker, HostedLoop& loop);
  /// What the node said on_fatal; OK if nothing.
  [[nodiscard]] absl::Status fatal() const;
  /// Databases on its disk.
  [[nodiscard]] size_t directory_count() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_NODE_TEST_NODE_H_
