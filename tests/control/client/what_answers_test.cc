#include "control/client/what_answers.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "control/client/shard_map_cache.h"
#include "control/proto/control.grpc.pb.h"
#include "control/security/first_words.h"
#include "control/server/bootstrap_server.h"
#include "control/store/etcd_store.h"
#include "tests/app/free_port.h"
#include "tests/control/client/control_harness.h"
#include "tests/control/etcd_process.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

/// Takes connections; says `words` to whoever has said something that begins with `to`, and hangs up if it is to.
class RawServer {
 public:
  RawServer(std::string words, bool hangs_up, std::string to = "")
      : words_(std::move(words)), hangs_up_(hangs_up), to_(std::move(to)) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~RawServer() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
    for (std::thread& talker : talkers_) talker.join();
    for (const int fd : connections_) close(fd);
    close(fd_);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  void run() {
    while (true) {
      const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      connections_.push_back(fd);
      talkers_.emplace_back([this, fd] { talk(fd); });
    }
  }
  void talk(int fd) const {
    if (!words_.empty()) {
      char heard[256];
      const ssize_t got = read(fd, heard, sizeof heard);
      const std::string_view said(heard, static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (said.starts_with(to_)) (void)send(fd, words_.data(), words_.size(), MSG_NOSIGNAL);
    }
    if (hangs_up_) shutdown(fd, SHUT_RDWR);
  }

  const std::string words_;
  const bool hangs_up_;
  const std::string to_;
  int fd_ = -1;
  std::string address_;
  std::vector<int> connections_;
  std::vector<std::thread> talkers_;
  std::thread thread_;
};

class NoWorkers final : public SessionAcceptor {
 public:
  NodeDescription describe() override { return {test_uuid(1), 1, kClusterId, {}}; }
  absl::StatusOr<std::string> open_session(uint32_t, const TransportDescriptor&, const std::string&,
                                           const SessionCaller&) override {
    return absl::NotFoundError("no worker");
  }
};

constexpr DurationNs kShort = 400 * kMillisecond;  // where silence has to be waited for

TEST(WhatAnswers, KnowsServersOfOurs) {
  ControlHarness control;
  EXPECT_EQ(what_answers(control.address(), kGenerous), Answerer::kControl);
  NoWorkers acceptor;
  const auto node = BootstrapServer::start("127.0.0.1:0", acceptor);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(what_answers((*node)->address(), kGenerous), Answerer::kStorageNode);
}

TEST(WhatAnswers, KnowsEtcdAndOtherGrpc) {
  v1::Tables::Service nothing;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&nothing);
  const auto server = builder.BuildAndStart();
  EXPECT_EQ(what_answers(absl::StrCat("127.0.0.1:", port), kGenerous), Answerer::kOtherGrpc);
  server->Shutdown();
  if (!EtcdProcess::is_installed()) GTEST_SKIP() << kNoEtcd;
  EtcdProcess etcd;
  ASSERT_TRUE(EtcdStore::open({.address = etcd.address("one"), .open_timeout_ns = kGenerous}).ok());
  EXPECT_EQ(what_answers(etcd.endpoint(), kGenerous), Answerer::kEtcd);
}

TEST(WhatAnswers, KnowsOthersByTheirFirstWords) {
  const std::string http = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(what_answers(RawServer(http, true).address(), kGenerous), Answerer::kWebServer);
  EXPECT_EQ(what_answers(RawServer("<!DOCTYPE HTML>\n<html>", true).address(), kGenerous), Answerer::kWebServer);
  const std::string alert("\x15\x03\x01\0\2\2\x46", 7);
  EXPECT_EQ(what_answers(RawServer(alert, true).address(), kGenerous), Answerer::kTls);
  EXPECT_EQ(what_answers(RawServer(alert, true, "\x16\3").address(), kGenerous), Answerer::kTls);
  EXPECT_EQ(what_answers(RawServer(http, true, "GET ").address(), kGenerous), Answerer::kWebServer);
  EXPECT_EQ(what_answers(RawServer("SKUA....", true).address(), kGenerous), Answerer::kDataPort);
  EXPECT_EQ(what_answers(RawServer("SSH-2.0-OpenSSH\r\n", true).address(), kGenerous), Answerer::kNotGrpc);
  EXPECT_EQ(what_answers(RawServer("", true).address(), kGenerous), Answerer::kNotGrpc);
  EXPECT_EQ(what_answers(RawServer("", false).address(), kShort), Answerer::kSilent);
}

TEST(WhatAnswers, SpeaksNoTls) {
  ControlHarness control;
  EXPECT_TRUE(speaks_no_tls(control.address(), kGenerous));
  const std::string alert("\x15\x03\x01\0\2\2\x46", 7);
  EXPECT_FALSE(speaks_no_tls(RawServer(alert, true).address(), kGenerous));
  EXPECT_FALSE(speaks_no_tls("127.0.0.1:1", kGenerous));
}

TEST(WhatAnswers, NobodyIsNobody) {
  EXPECT_EQ(what_answers(app::free_address()), Answerer::kNobody);
  for (const char* address : {"", "nonsense", ":1", "127.0.0.1:", "[::1", "127.0.0.1:none"}) {
    EXPECT_EQ(what_answers(address), Answerer::kNobody) << address;
  }
  EXPECT_EQ(describe(Answerer::kNobody), "");
}

TEST(ExplainControlFailure, LeavesAloneWhatItHasNothingToSayOf) {
  ControlHarness control;
  const absl::Status lost = absl::UnavailableError("lost");
  EXPECT_EQ(explain_control_failure(lost, control.address()), lost);
  const std::string nobody = app::free_address();
  EXPECT_EQ(explain_control_failure(lost, nobody), lost);
  RawServer web("HTTP/1.1 400 Bad Request\r\n\r\n", true);
  const absl::Status missing = absl::NotFoundError("no table");
  EXPECT_EQ(explain_control_failure(missing, web.address()), missing);
  EXPECT_THAT(std::string(explain_control_failure(lost, web.address()).message()),
              AllOf(HasSubstr(web.address()), HasSubstr("a web server"), HasSubstr("--control-address")));
}

/// What users see: an admin's call, a client's wait for a map, a node's registration.
class WrongServer : public testing::Test {
 protected:
  void expect_all_say(const std::string& address, const std::string& what) {
    AdminClient admin(address);
    EXPECT_THAT(std::string(admin.status().status().message()), HasSubstr(what));
    ShardMapCache cache({.control_address = address});
    cache.start();
    const absl::Status waited = cache.wait_for_revision(1, kGenerous);
    EXPECT_EQ(waited.code(), StatusCode::kFailedPrecondition) << waited;
    EXPECT_THAT(std::string(waited.message()), HasSubstr(what));
    NodeAgentOptions options;
    options.control_address = address;
    options.node = test_node(1);
    std::atomic<bool> told = false;
    options.on_trouble = [&](const absl::Status& status) {
      if (std::string(status.message()).find(what) != std::string::npos) told = true;
    };
    NodeAgent agent(options);
    agent.start();
    EXPECT_TRUE(eventually([&] { return told.load(); }));
  }
};

TEST_F(WrongServer, OfTheWeb) {
  RawServer server("HTTP/1.1 400 Bad Request\r\n\r\n", true);
  expect_all_say(server.address(), "is a web server, no control plane");
}

TEST_F(WrongServer, BesideTheRightOne) {
  RawServer server("HTTP/1.1 400 Bad Request\r\n\r\n", true);
  ControlHarness control;
  ShardMapCache cache({.control_address = absl::StrCat(server.address(), ",", control.address())});
  cache.start();
  EXPECT_TRUE(cache.wait_for_revision(1, kGenerous).ok());
}

TEST_F(WrongServer, BesideNobody) {
  RawServer server("HTTP/1.1 400 Bad Request\r\n\r\n", true);
  for (const std::string& addresses :
       {absl::StrCat("127.0.0.1:1,", server.address()), absl::StrCat(server.address(), ",127.0.0.1:1")}) {
    AdminClient admin(addresses, kShort);
    EXPECT_THAT(std::string(admin.status().status().message()), HasSubstr(server.address() + " is a web server"));
  }
}

TEST_F(WrongServer, StorageNode) {
  NoWorkers acceptor;
  const auto node = BootstrapServer::start("127.0.0.1:0", acceptor);
  ASSERT_TRUE(node.ok()) << node.status();
  expect_all_say((*node)->address(), "is a storage node (skuad), no control plane");
}

}  // namespace
}  // namespace skua::control
