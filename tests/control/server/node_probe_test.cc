// The control plane's question over real gRPC.
#include "control/server/node_probe.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "control/server/bootstrap_server.h"
#include "control/server/peer_host.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using testing::IsEmpty;
using testing::Not;

/// A node that tells who it is.
class Standing final : public SessionAcceptor {
 public:
  explicit Standing(NodeInfo node) : node_(std::move(node)) {}
  NodeDescription describe() override { return {node_.uuid, node_.incarnation, "", {}}; }
  std::optional<bool> is_instance(const std::string& instance) override {
    if (!says_instance) return std::nullopt;
    return instance == node_.instance;
  }
  absl::StatusOr<std::string> open_session(uint32_t, const TransportDescriptor&, const std::string&,
                                           const SessionCaller&) override {
    return absl::UnimplementedError("no sessions here");
  }
  bool says_instance = true;

 private:
  const NodeInfo node_;
};

class NodeProbeTest : public testing::Test {
 protected:
  NodeProbeTest() {
    auto server = BootstrapServer::start("127.0.0.1:0", standing_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  /// A claim of node 1 at the address of the server.
  NodeInfo claimed(uint64_t incarnation = 7) {
    NodeInfo node = test_node(1, incarnation);
    node.grpc_address = server_->address();
    return node;
  }
  ClaimAnswer ask(const NodeInfo& node) {
    std::promise<ClaimAnswer> promise;
    probe_->ask(node.grpc_address, node, [&](ClaimAnswer answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }

  Standing standing_{test_node(1, 7)};
  std::unique_ptr<BootstrapServer> server_;
  std::unique_ptr<NodeProbe> probe_ = make_node_probe();
};

TEST_F(NodeProbeTest, TellsWhoStandsThere) {
  const ClaimAnswer answer = ask(claimed());
  EXPECT_TRUE(answer.answered) << answer.trouble;
  EXPECT_EQ(answer.address, server_->address());
  EXPECT_EQ(answer.uuid, test_uuid(1));
  EXPECT_EQ(answer.incarnation, 7u);
  EXPECT_FALSE(answer.other_instance);
}

TEST_F(NodeProbeTest, TellsAnotherProcessOfTheSameNumberApart) {
  NodeInfo forged = claimed();
  forged.instance = test_uuid(99);
  EXPECT_TRUE(ask(forged).other_instance);
  standing_.says_instance = false;
  EXPECT_FALSE(ask(forged).other_instance) << "a build that does not say";
}

TEST_F(NodeProbeTest, NobodyThere) {
  const NodeInfo node = claimed();
  server_.reset();
  const ClaimAnswer answer = ask(node);
  EXPECT_FALSE(answer.answered);
  EXPECT_THAT(answer.trouble, Not(IsEmpty()));
}

TEST_F(NodeProbeTest, WhoeverComesBackIsFoundAtOnce) {
  const NodeInfo node = claimed();
  server_.reset();
  ASSERT_FALSE(ask(node).answered);
  auto server = BootstrapServer::start(node.grpc_address, standing_);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(ask(node).answered) << "no connection waits out an earlier failure";
}

TEST_F(NodeProbeTest, EndAnswersWhatIsOpen) {
  // Somebody who accepts and says nothing.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  NodeInfo node = test_node(1);
  node.grpc_address = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  std::promise<ClaimAnswer> promise;
  probe_->ask(node.grpc_address, node, [&](ClaimAnswer answer) { promise.set_value(std::move(answer)); });
  probe_.reset();
  EXPECT_FALSE(promise.get_future().get().answered);
  close(fd);
}

TEST(PeerHost, IsThePeerWithoutItsPort) {
  EXPECT_EQ(peer_host("ipv4:10.0.0.7:51234"), "ipv4:10.0.0.7");
  EXPECT_EQ(peer_host("ipv6:%5B::1%5D:51234"), "ipv6:%5B::1%5D");
  EXPECT_EQ(peer_host("unix:/tmp/x"), "unix:/tmp/x");
  EXPECT_EQ(peer_host(""), "");
}

TEST(PeerNetwork, IsTheHost_OrOfIPv6TheNetworkOf64Bits) {
  EXPECT_EQ(peer_network("ipv4:10.0.0.7:51234"), "ipv4:10.0.0.7");
  EXPECT_EQ(peer_network("ipv6:%5B2001:db8:0:1::7%5D:1"), "ipv6:2001:db8:0:1::/64");
  EXPECT_EQ(peer_network("ipv6:%5B2001:db8:0:1:ff::8%5D:2"), "ipv6:2001:db8:0:1::/64");
  EXPECT_EQ(peer_network("ipv6:%5B2001:db8:0:2::7%5D:1"), "ipv6:2001:db8:0:2::/64");
  EXPECT_EQ(peer_network("ipv6:%5Bfe80::1%25eth0%5D:1"), "ipv6:fe80::/64");
  EXPECT_EQ(peer_network("ipv6:%5B::ffff:10.0.0.7%5D:1"), "ipv6:%5B::ffff:10.0.0.7%5D");
  EXPECT_EQ(peer_network("unix:/tmp/x"), "unix:/tmp/x");
}

}  // namespace
}  // namespace skua::control
