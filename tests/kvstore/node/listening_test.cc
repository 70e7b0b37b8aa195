#include "kvstore/node/listening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "tests/control/no_name_server.h"

namespace skua::kv {
namespace {

using control::NoNameServer;
using ::testing::HasSubstr;

const Listening kUsual{.grpc_host = "127.0.0.1", .grpc_port = 7410, .data_host = "127.0.0.1", .data_port = 7420};

std::string why_not(const Listening& wanted) {
  const absl::Status status = check_listening(wanted);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(CheckListening, TheUsualIsFine) {
  EXPECT_EQ(why_not(kUsual), "");
  Listening free_ports = kUsual;
  free_ports.grpc_port = free_ports.data_port = 0;
  EXPECT_EQ(why_not(free_ports), "");
  Listening no_tcp = kUsual;
  no_tcp.data_host.clear();
  no_tcp.data_port = 0;
  EXPECT_EQ(why_not(no_tcp), "");
}

TEST(CheckListening, PortsThatMeetAreNamed) {
  Listening wanted = kUsual;
  wanted.grpc_port = 7420;
  EXPECT_THAT(why_not(wanted), HasSubstr("worker 0"));
  wanted.grpc_port = 7423;
  EXPECT_EQ(why_not(wanted), "");
  wanted.workers = 4;
  EXPECT_THAT(why_not(wanted), HasSubstr("worker 3"));
  wanted.grpc_host = "127.0.0.2";
  EXPECT_EQ(why_not(wanted), "");
  wanted.grpc_host = "0.0.0.0";
  EXPECT_THAT(why_not(wanted), HasSubstr("different ports"));
}

TEST(CheckListening, PortsEndSomewhere) {
  Listening wanted = kUsual;
  wanted.data_port = 65'530;
  wanted.workers = 6;
  EXPECT_EQ(why_not(wanted), "");
  wanted.workers = 7;
  EXPECT_THAT(why_not(wanted), HasSubstr("port 65536"));
}

TEST(CheckListening, EveryAddressNeedsOneThatOthersAreTold) {
  for (const char* host : {"0.0.0.0", "::"}) {
    Listening wanted = kUsual;
    wanted.grpc_host = host;
    EXPECT_THAT(why_not(wanted), HasSubstr("--advertise-host"));
    wanted.advertise_host = "node-1";
    EXPECT_EQ(why_not(wanted), "");
    wanted = kUsual;
    wanted.data_host = host;
    EXPECT_THAT(why_not(wanted), HasSubstr("--data-address"));
  }
}

TEST(ResolveAdvertiseHost, TakesAddressesAndNames) {
  Listening wanted = kUsual;
  EXPECT_EQ(*resolve_advertise_host(wanted), "");
  wanted.advertise_host = "10.1.2.3";
  EXPECT_EQ(*resolve_advertise_host(wanted), "10.1.2.3");
  wanted.advertise_host = "localhost";
  EXPECT_EQ(*resolve_advertise_host(wanted), "127.0.0.1");
  wanted.data_host = "::1";
  wanted.advertise_host = "fd00::1";
  EXPECT_EQ(*resolve_advertise_host(wanted), "fd00::1");
}

TEST(ResolveAdvertiseHost, SaysWhyNot) {
  Listening wanted = kUsual;
  wanted.advertise_host = "fd00::1";
  absl::Status status = resolve_advertise_host(wanted).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no IPv4 address"));
  wanted.advertise_host = "no-such-host.invalid";
  status = resolve_advertise_host(wanted).status();
  // Without a name server nobody knows whether there is such a host.
  EXPECT_EQ(status.code(), absl::StrContains(std::string(status.message()), "Temporary")
                               ? absl::StatusCode::kUnavailable
                               : absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not resolve"));
}

/// While a machine starts, no name server may answer yet: another start may succeed.
TEST(ResolveAdvertiseHost, ANameServerThatIsAwayPasses) {
  const NoNameServer away;
  Listening wanted = kUsual;
  wanted.advertise_host = "no-such-host.invalid";
  EXPECT_EQ(resolve_advertise_host(wanted).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ProbeListening, ANameServerThatIsAwayPasses) {
  const NoNameServer away;
  Listening wanted = kUsual;
  wanted.grpc_host = "no-such-host.invalid";
  const absl::Status status = probe_listening(wanted);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--grpc-address: no-such-host.invalid is not a host"));
}

TEST(LoopbackWarning, NamesWhatKeepsOthersAway) {
  Listening wanted = kUsual;
  EXPECT_EQ(loopback_warning(wanted, ""), "");
  EXPECT_EQ(loopback_warning(wanted, "127.0.0.1"), "");
  EXPECT_THAT(loopback_warning(wanted, "10.0.0.1"), HasSubstr("--grpc-address 127.0.0.1:7410"));
  wanted.grpc_host = "0.0.0.0";
  wanted.advertise_host = "node-1";
  EXPECT_THAT(loopback_warning(wanted, "10.0.0.1"), HasSubstr("--data-address 127.0.0.1:7420"));
  wanted.data_host = "10.0.0.1";
  EXPECT_EQ(loopback_warning(wanted, "10.0.0.1"), "");
  EXPECT_THAT(loopback_warning(wanted, "127.0.1.1"), HasSubstr("--advertise-host node-1 is 127.0.1.1 here"));
  EXPECT_THAT(loopback_warning(wanted, "::1"), HasSubstr("--advertise-host"));
  wanted.data_host.clear();  // sessions not over TCP
  EXPECT_EQ(loopback_warning(wanted, "10.0.0.1"), "");
}

TEST(ProbeListening, SaysWhichPortIsTakenAndLetsGoOfTheOthers) {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length), 0);
  Listening wanted = kUsual;
  wanted.grpc_port = 0;
  wanted.data_port = ntohs(address.sin_port);
  absl::Status status = probe_listening(wanted);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--data-address"));
  wanted.grpc_port = wanted.data_port;
  EXPECT_THAT(probe_listening(wanted).ToString(), HasSubstr("--grpc-address"));
  ::close(taken);
  wanted.grpc_port = 0;
  EXPECT_TRUE(probe_listening(wanted).ok());
  EXPECT_TRUE(probe_listening(wanted).ok());
  wanted.data_host = "192.0.2.1";
  status = probe_listening(wanted);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);  // it may come up later
  EXPECT_THAT(std::string(status.message()), HasSubstr("address of this machine"));
}

}  // namespace
}  // namespace skua::kv
