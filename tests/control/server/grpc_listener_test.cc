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

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/server/controller_limits.h"
#include "tests/control/no_name_server.h"
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
  explicit EmptyServer(const std::string& address, DoorFor whom = DoorFor::kMembers, DoorLog log = {}) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    listener_ = listen_with(builder, address, grpc::InsecureServerCredentials(), nullptr,
                            {.calls_per_connection = kCallsPerConnectionMax, .whom = whom, .log = std::move(log)});
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

/// While a machine starts, no name server may answer yet: another start may succeed.
TEST(Listen, ANameServerThatIsAwayPasses) {
  const NoNameServer away;
  EXPECT_EQ(check_listen("no-such-host.invalid:0").code(), StatusCode::kUnavailable);
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

/// 127.0.0.`host`: each counts as a network of its own.
sockaddr_in loopback(uint16_t port, uint8_t host = 1) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
  return to;
}

/// What a client of HTTP/2 begins with, and an empty frame of SETTINGS.
constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

/// A connection from 127.0.0.`host` that says `words`. Only calls that a child of a process with threads may make.
int speak(uint16_t port, uint8_t host, std::string_view words) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const sockaddr_in from = loopback(0, host);
  const sockaddr_in to = loopback(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0 &&
      connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    (void)send(fd, words.data(), words.size(), MSG_NOSIGNAL);
  }
  return fd;
}

/// Another process: begins 800 connections to a port, from some addresses in turn, and keeps them. One that says
/// nothing is closed by the server after a while, one that says kPreface is not.
class Crowd {
 public:
  /// `addresses`: 127.0.0.1 and so on. Fork before there are threads.
  Crowd(uint8_t addresses, std::string_view words) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    EXPECT_EQ(pipe(port_pipe_.data()), 0);
    EXPECT_EQ(pipe(all_pipe_.data()), 0);
    pid_ = fork();
    if (pid_ == 0) be_a_crowd(addresses, words);
    EXPECT_GT(pid_, 0);
    const rlimit few{.rlim_cur = kFiles, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~Crowd() {
    leave();
    setrlimit(RLIMIT_NOFILE, &before_);
    for (const int end : {port_pipe_[0], port_pipe_[1], all_pipe_[0], all_pipe_[1]}) close(end);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  /// Of this process, as long as the crowd lives.
  static constexpr rlim_t kFiles = 400;

  /// Waits until all have come. Perhaps some have been sent away by then.
  void come_to(uint16_t port) const {
    char all = 0;
    EXPECT_EQ(write(port_pipe_[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    EXPECT_EQ(read(all_pipe_[0], &all, 1), 1);
  }
  void leave() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  [[noreturn]] void be_a_crowd(uint8_t addresses, std::string_view words) const {
    const rlimit many{.rlim_cur = std::min<rlim_t>(before_.rlim_max, 2000), .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &many);
    uint16_t port = 0;
    if (read(port_pipe_[0], &port, sizeof port) != sizeof port) _exit(1);
    for (int i = 0; i < 800; ++i) (void)speak(port, static_cast<uint8_t>(1 + i % addresses), words);
    (void)!write(all_pipe_[1], &port, 1);
    for (;;) pause();
  }

  rlimit before_{};
  std::array<int, 2> port_pipe_{};
  std::array<int, 2> all_pipe_{};
  pid_t pid_ = 0;
};

uint16_t port_of(const EmptyServer& server) {
  return static_cast<uint16_t>(std::stoi(split_address((*server)->address)->port));
}

/// The lowest number of a descriptor that is free; -1: there is none.
int free_descriptor() {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd;
}

/// Speaks as a client does, and hears whether the server does.
bool is_sent_away(uint16_t port, uint8_t host = 1) {
  const int fd = speak(port, host, kPreface);
  char byte = 0;
  const bool sent_away = read(fd, &byte, 1) <= 0;
  close(fd);
  return sent_away;
}

/// What a client says that is sent away.
std::string trouble_of_client(const std::string& address) {
  grpc::ClientContext context;
  v1::GetStatusReply reply;
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  return std::string(from_grpc(v1::Cluster::NewStub(channel)->GetStatus(&context, {}, &reply), "node").message());
}

/// Files find descriptors while the crowd is there, and when it is gone, clients get in again.
TEST(Listen, ACrowdOfConnectionsDoesNotCloseTheDoor) {
  Crowd crowd(4, kPreface);
  const EmptyServer server("127.0.0.1:0");
  ASSERT_TRUE((*server).ok()) << (*server).status();
  crowd.come_to(port_of(server));
  EXPECT_TRUE(eventually([] { return free_descriptor() >= 300; })) << "three quarters are in use, and a file finds one";
  EXPECT_THAT(trouble_of_client((*server)->address), HasSubstr("closes new connections while too many begin"));
  crowd.leave();
  EXPECT_TRUE(answers((*server)->address));
}

TEST(Listen, ACrowdFromOneAddressLeavesHalfToOthers) {
  Crowd crowd(1, kPreface);
  const EmptyServer server("127.0.0.1:0");
  ASSERT_TRUE((*server).ok()) << (*server).status();
  const uint16_t port = port_of(server);
  crowd.come_to(port);
  EXPECT_TRUE(eventually([] { return free_descriptor() >= 150; }));
  EXPECT_TRUE(is_sent_away(port));
  EXPECT_FALSE(is_sent_away(port, 2)) << "another address";
  crowd.leave();
  EXPECT_TRUE(eventually([&] { return !is_sent_away(port); })) << "its connections have ended";
}

TEST(Listen, ACrowdThatSaysNothingShutsNobodyOut) {
  Crowd crowd(1, "");
  const EmptyServer server("127.0.0.1:0");
  ASSERT_TRUE((*server).ok()) << (*server).status();
  const uint16_t port = port_of(server);
  crowd.come_to(port);
  EXPECT_FALSE(is_sent_away(port));
  EXPECT_LT(free_descriptor(), 100);
  const int silent = speak(port, 2, "");
  char byte = 0;
  EXPECT_LE(read(silent, &byte, 1), 0) << "it is closed in the end";
  close(silent);
}

TEST(DescriptorsFor, StrangersGetHalf_MembersThreeQuarters) {
  EXPECT_EQ(descriptors_for(DoorFor::kStrangers, 400), 200);
  EXPECT_EQ(descriptors_for(DoorFor::kMembers, 400), 300);
  EXPECT_EQ(descriptors_for(DoorFor::kMembers, RLIM_INFINITY), INT32_MAX);
}

TEST(Listen, WhoeverBeginsTooManyConnectionsIsSentAway_ForAWhile_AndTheLogSaysSo) {
  std::mutex mutex;
  std::vector<std::string> told;  // protected by mutex
  const EmptyServer server("127.0.0.1:0", DoorFor::kMembers, [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    told.push_back(line);
  });
  ASSERT_TRUE((*server).ok()) << (*server).status();
  const uint16_t port = port_of(server);
  bool sent_away = false;
  for (int i = 0; i < 20'000 && !sent_away; ++i) sent_away = is_sent_away(port);
  EXPECT_TRUE(sent_away);
  EXPECT_TRUE(eventually([&] { return !is_sent_away(port); }));
  const std::lock_guard lock(mutex);
  ASSERT_FALSE(told.empty());
  EXPECT_THAT(told[0], testing::StartsWith("connections were sent away count=1 latest_from=127.0.0.1 port="));
  EXPECT_THAT(told[0], HasSubstr("begins too many"));
}

TEST(Listen, ACrowdOfStrangersLeavesRoomForMembers) {
  Crowd crowd(4, kPreface);
  const EmptyServer members("127.0.0.1:0");
  const EmptyServer strangers("127.0.0.1:0", DoorFor::kStrangers);
  ASSERT_TRUE((*members).ok() && (*strangers).ok());
  crowd.come_to(port_of(strangers));
  EXPECT_TRUE(eventually([&] { return is_sent_away(port_of(strangers)); }));
  EXPECT_LT(free_descriptor(), 300) << "where the door for members closes";
  EXPECT_TRUE(answers((*members)->address));
}

}  // namespace
}  // namespace skua::control
