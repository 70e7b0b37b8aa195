// Another loop on an endpoint's thread: both sleep together, and what either waits for wakes the thread.
#include "kvstore/worker/worker_guest.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "rpc/endpoint.h"
#include "rpc/mailbox.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "tests/kvstore/worker/pipe_loop.h"

namespace skua::kv {
namespace {

constexpr rpc::MethodId kEcho = 1;

std::unique_ptr<rpc::TcpTransport> make_transport(uint8_t number, std::string listen_ip) {
  rpc::TcpOptions options;
  options.listen_ip = std::move(listen_ip);
  options.self.uuid.bytes.back() = number;
  return rpc::TcpTransport::create(std::move(options)).value();
}

struct TcpEndpoint {
  TcpEndpoint(uint8_t number, std::string listen_ip)
      : transport(make_transport(number, std::move(listen_ip))), endpoint(*transport, clock, rpc::EndpointOptions()) {}
  SteadyClock clock;
  std::unique_ptr<rpc::TcpTransport> transport;
  rpc::Endpoint endpoint;
};

/// An endpoint that echoes, and a loop, on a thread.
class WorkerGuestTest : public ::testing::Test {
 protected:
  WorkerGuestTest() {
    server_.endpoint.serve(kEcho, [](rpc::IncomingCall&& call) { call.reply.reply(call.request.bytes()); });
    thread_ = std::thread([this, ended = std::move(ended_)]() mutable {
      server_.endpoint.adopt_thread();
      WorkerGuest guest(server_.endpoint, loop_, true, std::move(ended));
      size_t polled = 0;
      do {
        polled = server_.endpoint.poll();
      } while (guest.turn(3600 * kSecond, polled));
    });
  }
  ~WorkerGuestTest() override {
    loop_.end();
    end_.wait();
    thread_.join();
    server_.endpoint.adopt_thread();
  }

  TcpEndpoint server_{1, "127.0.0.1"};
  testing::PipeLoop loop_;
  std::promise<void> ended_;
  std::future<void> end_ = ended_.get_future();
  std::thread thread_;
};

TEST_F(WorkerGuestTest, TheLoopIsWokenByItsOwn) {
  for (int i = 1; i <= 100; ++i) {
    loop_.tell();
    loop_.wait_until_told(i);
  }
}

TEST_F(WorkerGuestTest, TheEndpointIsWokenByATask) {
  for (int i = 0; i < 100; ++i) {
    std::promise<void> done;
    ASSERT_TRUE(server_.endpoint.mailbox()->post([&done] { done.set_value(); }));
    done.get_future().wait();
  }
}

TEST_F(WorkerGuestTest, TheEndpointIsWokenByCalls) {
  TcpEndpoint client(2, "");
  const rpc::SessionId session = client.endpoint.connect(server_.endpoint.local_descriptor()).value();
  for (int i = 0; i < 100; ++i) {
    absl::Status status = absl::UnknownError("no answer yet");
    const std::string sent = "number " + std::to_string(i);
    std::string answer;
    ASSERT_TRUE(client.endpoint
                    .call(session, kEcho, as_byte_span(sent), {.timeout_ns = 60 * kSecond},
                          [&](rpc::CallResult&& result) {
                            status = result.status;
                            if (status.ok()) answer = as_string_view(result.response.bytes());
                          })
                    .ok());
    while (absl::IsUnknown(status)) client.endpoint.poll_or_wait(kSecond);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(answer, sent);
  }
}

TEST_F(WorkerGuestTest, TheEndIsSaidAfterTheLastTurn) {
  loop_.end();
  end_.wait();
  EXPECT_TRUE(loop_.has_had_last_turn());
}

}  // namespace
}  // namespace skua::kv
