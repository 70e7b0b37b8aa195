#include "tests/kvstore/node/test_node.h"
#include "tests/app/free_port.h"

#include <filesystem>
#include <mutex>
#include <utility>

#include "app/data_dir.h"
#include "app/uuid.h"
#include "kvstore/node/node.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "tests/control/temp_dir.h"

namespace skua::kv::testing {

struct TestNode::Impl {
  control::TempDir directory;
  std::string control_address;
  uint32_t workers = 1;
  const std::string grpc_address = app::free_address();
  std::function<control::CredentialsPtr(const std::string&)> issue;
  std::mutex mutex;
  absl::Status fatal;  // guarded by mutex
  std::unique_ptr<Node> node;

  NodeOptions options(const app::DataDirIdentity& identity);
};

namespace {

absl::StatusOr<std::unique_ptr<rpc::Transport>> make_tcp(uint32_t, const rpc::EndpointIdentity& self) {
  rpc::TcpOptions options;
  options.listen_ip = "127.0.0.1";
  options.self = self;
  auto transport = rpc::TcpTransport::create(std::move(options));
  if (!transport.ok()) return transport.status();
  return *std::move(transport);
}

}  // namespace

TestNode::TestNode(std::string control_address, uint32_t workers) : impl_(std::make_unique<Impl>()) {
  impl_->control_address = std::move(control_address);
  impl_->workers = workers;
}

TestNode::~TestNode() = default;

NodeOptions TestNode::Impl::options(const app::DataDirIdentity& identity) {
  NodeOptions out;
  out.data_dir = directory.path();
  out.node_uuid = identity.node_uuid;
  out.cluster_id = identity.cluster_id;
  out.instance = app::random_uuid();
  out.host = "test";
  out.control_address = control_address;
  out.grpc_address = grpc_address;
  if (issue) {
    out.credentials = issue(identity.node_uuid);
    out.packets = rpc::PacketProtection::kEncrypt;
  }
  out.workers = workers;
  out.make_transport = make_tcp;
  out.endpoint.spin_ns = 0;
  out.endpoint.protocol.window = 256;
  out.endpoint.memory_limit_bytes = 256 << 20;
  out.storage.cache_bytes = 16 << 20;
  out.storage.write_buffer_bytes = 64 << 20;
  out.memory_bytes = workers * (size_t{128} << 20);
  out.log_files.segment_bytes = 40 << 20;
  out.log_files.group_bytes_max = 20 << 20;
  out.log_files.reserve_segments = 1;
  out.log_files.spares_at_open = 1;
  out.adopt_cluster = [this, bound = identity](const std::string& cluster_id) mutable {
    return app::adopt_cluster(directory.path(), bound, cluster_id);
  };
  out.on_fatal = [this](const absl::Status& why) {
    const std::lock_guard lock(mutex);
    fatal = why;
  };
  return out;
}

void TestNode::use_credentials(std::function<control::CredentialsPtr(const std::string&)> issue) {
  impl_->issue = std::move(issue);
}

absl::Status TestNode::start() {
  const auto identity = app::open_identity(impl_->directory.path(), "node", 1);
  if (!identity.ok()) return identity.status();
  auto node = Node::start(impl_->options(*identity));
  if (!node.ok()) return node.status();
  impl_->node = *std::move(node);
  return absl::OkStatus();
}

void TestNode::stop() {
  impl_->node.reset();
}
std::string TestNode::grpc_address() const {
  return impl_->grpc_address;
}
uint64_t TestNode::incarnation() const {
  return impl_->node->incarnation();
}
uint64_t TestNode::applied_revision() const {
  return impl_->node->applied_revision();
}
std::string TestNode::metrics() {
  return impl_->node->metrics();
}
std::vector<HealthCheck> TestNode::readiness() {
  return impl_->node->readiness();
}
bool TestNode::is_alive() {
  return impl_->node->is_alive();
}

absl::StatusOr<std::future<void>> TestNode::host(uint32_t worker, HostedLoop& loop) {
  return impl_->node->host(worker, loop);
}

absl::Status TestNode::fatal() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->fatal;
}

size_t TestNode::directory_count() const {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(impl_->directory.path() + "/shards")) {
    ++count;
  }
  return count;
}

}  // namespace skua::kv::testing
