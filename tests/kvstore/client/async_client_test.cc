#include "kvstore/client/async_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "rpc/base/bytes.h"
#include "tests/kvstore/client/threaded_cluster.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

void poll_until(AsyncClient& client, const std::function<bool()>& done) {
  while (!done()) client.poll(milliseconds(10));
}

/// An address where nobody listens, now.
std::string dead_address() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  SKUA_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  SKUA_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  close(fd);
  return absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

TEST(Create, RefusesBadOptions) {
  EXPECT_EQ(AsyncClient::create({.control_address = ""}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AsyncClient::create({.operations_max = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AsyncClient::create({.packet_key_lifetime = milliseconds(999)}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AsyncClient::create({.session_window = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AsyncClient::create({.timeout = milliseconds(0)}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Create, TakesTheTransportThatItIsGivenAndLetsItGoAtTheEnd) {
  std::weak_ptr<rpc::Transport> made;
  rpc::EndpointIdentity self;
  ClientOptions options;
  options.make_transport =
      [&](const rpc::EndpointIdentity& identity) -> absl::StatusOr<std::shared_ptr<rpc::Transport>> {
    self = identity;
    auto transport = make_client_transport(1);
    made = *transport;
    return transport;
  };
  auto client = AsyncClient::create(options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE(self.uuid.is_zero());
  EXPECT_FALSE(made.expired());
  client->reset();
  EXPECT_TRUE(made.expired());

  options.make_transport = [](const rpc::EndpointIdentity&) { return absl::UnavailableError("no link"); };
  EXPECT_EQ(AsyncClient::create(options).status(), absl::UnavailableError("no link"));
}

TEST(Get, HonoursItsDeadlineWithNobodyListening) {
  const std::string address = dead_address();
  auto client = AsyncClient::create({.control_address = address});
  ASSERT_TRUE(client.ok()) << client.status();
  GetResult got;
  bool done = false;
  ASSERT_TRUE((*client)
                  ->get("t", "k", {.timeout = milliseconds(300)},
                        [&](GetResult&& result) {
                          got = std::move(result);
                          done = true;
                        })
                  .ok());
  poll_until(**client, [&] { return done; });
  EXPECT_EQ(got.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(got.status.ToString(), HasSubstr("no shard map: control plane at " + address + " cannot be reached"));
}

TEST(WarmUp, OpensASessionWithEachOwner) {
  ThreadedCluster cluster(3, 8);
  auto client = cluster.make_client();
  EXPECT_TRUE(client->warm_up("t", std::chrono::seconds(30)).ok());
  EXPECT_EQ(client->counters().sessions_opened, 3u);
  EXPECT_EQ(client->warm_up("nosuch", milliseconds(50)).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(WarmUp, EndsAtOnceWhereNobodyIsTheControlPlane) {
  const std::string address = dead_address();
  auto client = AsyncClient::create({.control_address = address});
  ASSERT_TRUE(client.ok());
  // It does not wait for what will not come.
  const absl::Status status = (*client)->warm_up("t", std::chrono::hours(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr(address));
}

TEST(Put, CarriesTheLargestValueAndRefusesALargerOne) {
  ThreadedCluster cluster(1, 1);
  auto client = cluster.make_client();
  std::string largest(kValueBytesMax, '\0');
  for (size_t i = 0; i < largest.size(); ++i) largest[i] = static_cast<char>(i * 31 >> 5);
  bool written = false;
  ASSERT_TRUE(client
                  ->put("t", "k", largest, {.timeout = std::chrono::seconds(60)},
                        [&](WriteResult&& result) {
                          EXPECT_TRUE(result.ok()) << result.status;
                          written = true;
                        })
                  .ok());
  poll_until(*client, [&] { return written; });
  bool read = false;
  ASSERT_TRUE(client
                  ->get("t", "k", {.timeout = std::chrono::seconds(60)},
                        [&](GetResult&& result) {
                          ASSERT_TRUE(result.ok()) << result.status;
                          EXPECT_TRUE(result.value.bytes() == largest);
                          read = true;
                        })
                  .ok());
  poll_until(*client, [&] { return read; });
  largest.push_back('x');
  const absl::Status refused = client->put("t", "k", largest, {}, [](WriteResult&&) { FAIL(); });
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.ToString(), AllOf(HasSubstr("16,777,217"), HasSubstr("16,777,216")));
}

TEST(Poll, RunsManyOperationsSideBySide) {
  ThreadedCluster cluster(2, 4);
  auto client = cluster.make_client();
  int done = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = absl::StrCat("key", i % 100);
    ASSERT_TRUE(client
                    ->put("t", key, absl::StrCat("v", i), {},
                          [&](WriteResult&& result) {
                            EXPECT_TRUE(result.ok()) << result.status;
                            ++done;
                          })
                    .ok());
  }
  poll_until(*client, [&] { return done == 2000; });
  EXPECT_EQ(client->in_flight(), 0u);
}

TEST(Post, EndsAWaitFromAnotherThread) {
  ThreadedCluster cluster(1, 1);
  auto client = cluster.make_client();
  bool ran = false;
  std::thread poster([&] { EXPECT_TRUE(client->post([&] { ran = true; })); });
  while (!ran) client->poll(std::chrono::seconds(100));
  poster.join();
}

}  // namespace
}  // namespace skua::kv
