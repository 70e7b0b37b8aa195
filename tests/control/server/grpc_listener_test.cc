#include "control/server/grpc_listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "control/server/controller_limits.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(SplitAddress, TakesNamesAndBothKindsOfAddresses) {
  EXPECT_EQ(split_address("localhost:7400")->host, "localhost");
  EXPECT_EQ(split_address("127.0.0.1:0")->port, "0");
  EXPECT_EQ(split_address("[::1]:65535")->host, "::1");
}

TEST(SplitAddress, RefusesTheRest) {
  for (const char* bad :
       {"", "host", ":7400", "host:", "host:x", "host:65536", "host:123456", "::1:7400", "[]:1", "7400"}) {
    EXPECT_EQ(split_address(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

/// A server without methods.
class EmptyServer {
 public:
  explicit EmptyServer(const std::string& address, DoorFor whom = DoorFor::kMembers) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    listener_ = listen_with(builder, address, grpc::InsecureServerCredentials(), nullptr,
                            {.calls_per_connection = kCallsPerConnectionMax, .whom = whom});
  }
  const absl::StatusOr<Listener>& operator*() const { return listener_; }

 private:
  grpc::CallbackGenericService service_;
  absl::StatusOr<Listener> listener_;
};

TEST(Listen, PortInUseSaysSo) {
  const EmptyServer first("127.0.0.1:0");
  ASSERT_TRUE((*first).ok()) << (*first).status();
  const std::string address = (*first)->address;
  const EmptyServer second(address);
  EXPECT_EQ((*second).status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string((*second).status().message()), HasSubstr(address));
  EXPECT_THAT(std::string((*second).status().message()), HasSubstr("another port"));
}

TEST(Listen, ForeignAddressSaysSo) {
  const EmptyServer server("192.0.2.1:0");
  const absl::Status status = (*server).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;  // it may come up later
  EXPECT_THAT(std::string(status.message()), HasSubstr("address of this machine"));
}

/// Whether a client's channel gets through to the server.
bool answers(const std::string& address) {
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  return channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::nanoseconds(kGenerous));
}

TEST(Listen, WildcardsTakeBothKindsOfConnections) {
  for (const char* wildcard : {"0.0.0.0:0", "[::]:0"}) {
    const EmptyServer server(wildcard);
    ASSERT_TRUE((*server).ok()) << (*server).status();
    const std::string port = split_address((*server)->address)->port;
    EXPECT_TRUE(answers("127.0.0.1:" + port));
  }
}

/// Takes calls and never ends them.
class Holder final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* /*context*/) override {
    ++held;
    return new Held;  // NOLINT(cppcoreguidelines-owning-memory): deletes itself
  }
  std::atomic<size_t> held{0};

 private:
  struct Held final : grpc::ServerGenericBidiReactor {
    void OnCancel() override { Finish(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }  // NOLINT(cppcoreguidelines-owning-memory)
  };
};

TEST(Listen, OneConnectionHasABoundedNumberOfOpenCalls) {
  Holder holder;
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&holder);
  absl::StatusOr<Listener> listener = listen(builder, "127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  grpc::GenericStub stub(grpc::CreateChannel(listener->address, grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls;
  for (size_t i = 0; i < kCallsPerConnectionMax + 50; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    calls.push_back(stub.PrepareCall(contexts.back().get(), "/a/b", &queue));
    calls.back()->StartCall(nullptr);
  }
  EXPECT_TRUE(eventually([&] { return holder.held >= kCallsPerConnectionMax; }));
  // Another connection has calls of its own: the server is not what holds the others back.
  EXPECT_EQ(holder.held, kCallsPerConnectionMax);
  grpc::ChannelArguments alone;
  alone.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub other(grpc::CreateCustomChannel(listener->address, grpc::InsecureChannelCredentials(), alone));
  contexts.push_back(std::make_unique<grpc::ClientContext>());
  calls.push_back(other.PrepareCall(contexts.back().get(), "/a/b", &queue));
  calls.back()->StartCall(nullptr);
  EXPECT_TRUE(eventually([&] { return holder.held == kCallsPerConnectionMax + 1; }));
  for (const auto& context : contexts) context->TryCancel();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) continue;
  calls.clear();
  listener->shut_down(std::chrono::system_clock::now());
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return to;
}

/// Another process: connects to the port that it reads from `port_pipe`, again and again, and says nothing. A byte
/// goes to `all_pipe` then. Only calls that a child of a process with threads may make.
[[noreturn]] void be_a_crowd(int port_pipe, int all_pipe, const rlimit& limit) {
  setrlimit(RLIMIT_NOFILE, &limit);
  uint16_t port = 0;
  if (read(port_pipe, &port, sizeof port) != sizeof port) _exit(1);
  const sockaddr_in to = loopback(port);
  for (int i = 0; i < 800; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd >= 0) (void)connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  (void)!write(all_pipe, &port, 1);
  for (;;) pause();
}

/// The lowest number of a descriptor that is free; -1: there is none.
int free_descriptor() {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd;
}

/// Files find descriptors while the crowd is there, and when it is gone, clients get in again.
TEST(Listen, ACrowdOfConnectionsDoesNotCloseTheDoor) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::array<int, 2> port_pipe{};
  ASSERT_EQ(pipe(port_pipe.data()), 0);
  const pid_t crowd = fork();
  if (crowd == 0) be_a_crowd(port_pipe[0], -1, before);
  ASSERT_GT(crowd, 0);
  const rlimit few{.rlim_cur = 400, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    const EmptyServer server("127.0.0.1:0");
    ASSERT_TRUE((*server).ok()) << (*server).status();
    const std::string address = (*server)->address;
    const auto port = static_cast<uint16_t>(std::stoi(split_address(address)->port));
    ASSERT_EQ(write(port_pipe[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    EXPECT_TRUE(eventually([] { return free_descriptor() >= 300; }))
        << "three quarters are in use, and a file finds one";
    kill(crowd, SIGKILL);
    waitpid(crowd, nullptr, 0);
    EXPECT_TRUE(answers(address));
  }
  setrlimit(RLIMIT_NOFILE, &before);
  for (const int end : port_pipe) close(end);
}

TEST(DescriptorsFor, StrangersGetHalf_MembersThreeQuarters) {
  EXPECT_EQ(descriptors_for(DoorFor::kStrangers, 400), 200);
  EXPECT_EQ(descriptors_for(DoorFor::kMembers, 400), 300);
  EXPECT_EQ(descriptors_for(DoorFor::kMembers, RLIM_INFINITY), INT32_MAX);
}

/// One more at the end of the crowd: when it has been sent away, all that came before have been judged.
bool is_sent_away(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in to = loopback(port);
  char byte = 0;
  const bool sent_away = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 && read(fd, &byte, 1) <= 0;
  close(fd);
  return sent_away;
}

TEST(Listen, WhoeverBeginsTooManyConnectionsIsSentAway_ForAWhile) {
  const EmptyServer server("127.0.0.1:0");
  ASSERT_TRUE((*server).ok()) << (*server).status();
  const auto port = static_cast<uint16_t>(std::stoi(split_address((*server)->address)->port));
  bool sent_away = false;
  for (int i = 0; i < 20'000 && !sent_away; ++i) sent_away = is_sent_away(port);
  EXPECT_TRUE(sent_away);
  EXPECT_TRUE(eventually([&] { return !is_sent_away(port); }));
}

TEST(Listen, ACrowdOfStrangersLeavesRoomForMembers) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 400, .rlim_max = before.rlim_max};
  std::array<int, 2> port_pipe{};
  std::array<int, 2> all_pipe{};
  ASSERT_EQ(pipe(port_pipe.data()), 0);
  ASSERT_EQ(pipe(all_pipe.data()), 0);
  const pid_t crowd = fork();
  if (crowd == 0) be_a_crowd(port_pipe[0], all_pipe[1], before);
  ASSERT_GT(crowd, 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    const EmptyServer members("127.0.0.1:0");
    const EmptyServer strangers("127.0.0.1:0", DoorFor::kStrangers);
    ASSERT_TRUE((*members).ok() && (*strangers).ok());
    const auto port = static_cast<uint16_t>(std::stoi(split_address((*strangers)->address)->port));
    ASSERT_EQ(write(port_pipe[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    char all = 0;
    ASSERT_EQ(read(all_pipe[0], &all, 1), 1);
    EXPECT_TRUE(eventually([&] { return is_sent_away(port); }));
    EXPECT_LT(free_descriptor(), 300) << "where the door for members closes";
    EXPECT_TRUE(answers((*members)->address));
    kill(crowd, SIGKILL);
    waitpid(crowd, nullptr, 0);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  for (const int end : {port_pipe[0], port_pipe[1], all_pipe[0], all_pipe[1]}) close(end);
}

}  // namespace
}  // namespace skua::control
