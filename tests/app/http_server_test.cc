// Clients that are slow, many, or send what they should not, do not keep others, and not the end of the server.
#include "app/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "app/http_listener.h"
#include "tests/app/http_client.h"

namespace skua::app {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr DurationNs kNoDeadlineNs = 3600 * kSecond;
const std::string kGet = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n";

class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpPage page, DurationNs deadline_ns = kNoDeadlineNs) {
    auto started = HttpServer::start(
        {.address = {.host = "127.0.0.1"}, .pages = {{"/page", std::move(page)}}, .deadline_ns = deadline_ns});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    address_ = server_->address();
  }
  void start() {
    start([](const HttpRequest&) { return HttpReply{.body = "words\n"}; });
  }
  std::string ask(std::string_view request) { return answer_to(address_, request); }

  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

TEST_F(HttpServerTest, ASocketThatTheSystemDoesNotGiveIsTheReason) {
  // UndefinedBehaviorSanitizer opens a pipe when a call meets a class for the first time. The call that words the
  // reason has to meet its class before there are no descriptors. Nobody has this address (RFC 5737).
  EXPECT_FALSE(listen_for_http({.host = "192.0.2.1"}).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto listener = listen_for_http({.host = "127.0.0.1"});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(listener.ok());
  EXPECT_THAT(std::string(listener.status().message()), HasSubstr("Too many open files"));
}

TEST_F(HttpServerTest, ClientsThatSendAByteOrNothingKeepNobody) {
  start();
  std::vector<OwnedFd> slow;
  for (size_t i = 0; i < 2 * kHttpConnectionsMax; ++i) {
    slow.push_back(connect_to(address_));
    if (i % 2 == 0) {
      EXPECT_TRUE(send_bytes(slow.back(), "G"));
    }
  }
  EXPECT_THAT(ask(kGet), StartsWith("HTTP/1.1 200 OK\r\n"));
  // The end does not wait for the clients, which are still there.
  server_.reset();
  EXPECT_EQ(receive_all(slow.back()), "");
}

TEST_F(HttpServerTest, AClientThatDoesNotReadKeepsNobody) {
  start([](const HttpRequest&) { return HttpReply{.body = std::string(64 << 20, 'x')}; });
  const OwnedFd deaf = connect_to(address_);
  EXPECT_TRUE(send_bytes(deaf, kGet));
  EXPECT_THAT(ask("HEAD /page HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  server_.reset();
}

TEST_F(HttpServerTest, EachConnectionEndsAtItsDeadline) {
  start([](const HttpRequest&) { return HttpReply{.body = std::string(64 << 20, 'x')}; }, 50 * kMillisecond);
  const OwnedFd silent = connect_to(address_);
  const OwnedFd slow = connect_to(address_);
  const OwnedFd deaf = connect_to(address_);
  EXPECT_TRUE(send_bytes(slow, "GET /page HTTP/1.1\r\n"));
  EXPECT_TRUE(send_bytes(deaf, kGet));
  EXPECT_EQ(receive_all(silent), "");
  EXPECT_EQ(receive_all(slow), "");
}

TEST_F(HttpServerTest, ARequestWithoutEndIsRefused) {
  start();
  const OwnedFd endless = connect_to(address_);
  const std::string line = "X-Line: " + std::string(90, 'x') + "\r\n";
  EXPECT_TRUE(send_bytes(endless, "GET /page HTTP/1.1\r\n"));
  for (size_t sent = 0; sent < 2 * kHttpHeadBytesMax; sent += line.size()) static_cast<void>(send_bytes(endless, line));
  EXPECT_THAT(receive_all(endless), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, RangesAreIgnored) {
  start();
  std::string ranges = "Range: bytes=0-0";
  for (int i = 0; i < 1000; ++i) ranges += ",0-0";
  EXPECT_THAT(ask("GET /page HTTP/1.1\r\n" + ranges + "\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Length: 6\r\n"), EndsWith("\r\n\r\nwords\n")));
}

TEST_F(HttpServerTest, AForeignHostIsRefused) {
  start();
  EXPECT_THAT(ask("GET /page HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 421 "), Not(HasSubstr("words"))));
  EXPECT_THAT(ask("GET /page HTTP/1.1\r\nHost: " + address_ + "\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("GET /page HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AnyHostWillDoWhereOthersReachTheServer) {
  auto everywhere = HttpServer::start(
      {.address = {.host = "0.0.0.0"}, .pages = {{"/page", [](const HttpRequest&) { return HttpReply{}; }}}});
  ASSERT_TRUE(everywhere.ok()) << everywhere.status();
  EXPECT_THAT(answer_to((*everywhere)->address(), "GET /page HTTP/1.1\r\nHost: node-1\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, OtherPathsMethodsAndNonsense) {
  start();
  EXPECT_THAT(ask("HEAD /page HTTP/1.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Content-Length: 6\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(ask("GET /other HTTP/1.1\r\n\r\n"), AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("there are: /page")));
  EXPECT_THAT(ask("POST /page HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
  EXPECT_THAT(ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, ABodyThatFollowsDoesNotDestroyTheReply) {
  start();
  const OwnedFd client = connect_to(address_);
  EXPECT_TRUE(send_bytes(client, "POST /page HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"));
  EXPECT_TRUE(send_bytes(client, std::string(1'000'000, 'x')));
  EXPECT_THAT(receive_all(client), StartsWith("HTTP/1.1 405 "));
}

TEST_F(HttpServerTest, WhileAPageIsMadeTheServerGoesOn) {
  std::promise<void> begun;
  std::promise<void> allowed;
  start([&, may_end = allowed.get_future().share()](const HttpRequest& request) {
    if (request.parameters.contains("long")) {
      begun.set_value();
      may_end.wait();
    }
    return HttpReply{.body = "made\n"};
  });
  const OwnedFd first = connect_to(address_);
  EXPECT_TRUE(send_bytes(first, "GET /page?long HTTP/1.1\r\n\r\n"));
  begun.get_future().wait();
  EXPECT_THAT(ask("GET /other HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  const OwnedFd second = connect_to(address_);
  EXPECT_TRUE(send_bytes(second, kGet));
  allowed.set_value();
  EXPECT_THAT(receive_all(first), EndsWith("made\n"));
  EXPECT_THAT(receive_all(second), EndsWith("made\n"));
}

TEST_F(HttpServerTest, ManyClientsAtOnceAllGetTheirPage) {
  start([](const HttpRequest&) { return HttpReply{.body = std::string(100'000, 'x') + "end"}; });
  std::vector<std::thread> clients;
  std::atomic<int> served = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 100; ++k) served += ask(kGet).ends_with("end") ? 1 : 0;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served, 800);
}

TEST_F(HttpServerTest, AnAddressThatTheMachineDoesNotHave) {
  const auto started = HttpServer::start({.address = {.host = "192.0.2.1", .port = 80}});
  EXPECT_TRUE(absl::IsUnavailable(started.status())) << started.status();
  EXPECT_THAT(std::string(started.status().message()), HasSubstr("192.0.2.1:80: Cannot assign requested address"));
}

}  // namespace
}  // namespace skua::app
