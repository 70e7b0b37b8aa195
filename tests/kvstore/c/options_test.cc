#include "kvstore/c/options.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/control/wait.h"
#include "tests/kvstore/c/c_client.h"

namespace skua::c {
namespace {

std::string refusal(skua_options* options, const char* name, const char* value) {
  skua_error error = SKUA_ERROR_INIT;
  EXPECT_EQ(skua_options_set(options, name, value, &error), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, SKUA_INVALID_ARGUMENT);
  return error.text;
}

TEST(Options, AreSetByName) {
  const OptionsPtr options(skua_options_create());
  const auto set = [&](const char* name, const char* value) {
    skua_error error = SKUA_ERROR_INIT;
    EXPECT_EQ(skua_options_set(options.get(), name, value, &error), SKUA_OK) << error.text;
  };
  set("control-address", "10.0.0.1:7400,10.0.0.2:7400");
  set("cert", "a.pem");
  set("key", "a.key");
  set("ca", "ca.pem");
  set("packets", "authenticate");
  set("timeout", "250ms");
  set("operations-max", "16");
  set("session-window", "64");
  set("memory-limit", "64MiB");
  set("exactly-once", "false");
  set("grpc-log", "keep");
  set("renew-certificate", "true");
  EXPECT_FALSE(options->has_spin);
  set("spin", "5us");
  const kv::ClientOptions& client = options->client;
  EXPECT_EQ(client.control_address, "10.0.0.1:7400,10.0.0.2:7400");
  EXPECT_EQ(client.credentials.certificate, "a.pem");
  EXPECT_EQ(client.credentials.key, "a.key");
  EXPECT_EQ(client.credentials.authorities, "ca.pem");
  EXPECT_EQ(client.packets, rpc::PacketProtection::kAuthenticate);
  EXPECT_EQ(client.timeout, std::chrono::milliseconds(250));
  EXPECT_EQ(client.operations_max, 16u);
  EXPECT_EQ(client.session_window, 64u);
  EXPECT_EQ(client.memory_limit_bytes, size_t{64} << 20);
  EXPECT_FALSE(client.exactly_once);
  EXPECT_TRUE(options->keeps_grpc_log);
  EXPECT_TRUE(options->renews_certificate);
  EXPECT_TRUE(options->has_spin);
  EXPECT_EQ(client.spin, std::chrono::microseconds(5));
}

TEST(Options, OfTransportsAreThoseOfOtherPrograms) {
  const OptionsPtr options(skua_options_create());
  const TransportSettings& settings = options->transport;
  EXPECT_EQ(settings.transport, "tcp");
  EXPECT_EQ(settings.dpdk.udp_port, 0u) << "drawn";
  EXPECT_EQ(settings.dpdk_clients, 1u);
  const auto set = [&](const char* name, const char* value) {
    skua_error error = SKUA_ERROR_INIT;
    EXPECT_EQ(skua_options_set(options.get(), name, value, &error), SKUA_OK) << error.text;
  };
  set("transport", "dpdk");
  set("dpdk-clients", "4");
  set("dpdk-devices", "net_null0;net_null1");
  set("dpdk-huge-pages", "false");
  set("dpdk-mbufs", "4095");
  set("verbs-device", "mlx5_0:2");
  set("verbs-gid-index", "-1");
  EXPECT_EQ(settings.transport, "dpdk");
  EXPECT_EQ(settings.dpdk_clients, 4u);
  EXPECT_EQ(settings.dpdk.devices, "net_null0;net_null1");
  EXPECT_FALSE(settings.dpdk.huge_pages);
  EXPECT_EQ(settings.dpdk.mbufs, 4095u);
  EXPECT_EQ(settings.verbs.device, "mlx5_0:2");
  EXPECT_EQ(settings.verbs.gid_index, -1);
}

TEST(Options, RefusalsNameTheOption) {
  const OptionsPtr options(skua_options_create());
  EXPECT_EQ(refusal(options.get(), "time-out", "1s"), "there is no option time-out; did you mean timeout?");
  EXPECT_EQ(refusal(options.get(), "packets", "some"),
            "option packets must be default, off, authenticate or encrypt, not some");
  EXPECT_EQ(refusal(options.get(), "transport", "rdma"), "option transport must be tcp, dpdk or verbs, not rdma");
  EXPECT_EQ(refusal(options.get(), "dpdk-device", "net_null0"),
            "there is no option dpdk-device; did you mean dpdk-devices?");
  EXPECT_EQ(refusal(options.get(), "dpdk-mtu", "-1"), "option dpdk-mtu must be from 0 to 65535, not -1");
  EXPECT_EQ(refusal(options.get(), "session-window", "70000"),
            "option session-window must be from 0 to 65535, not 70000");
  EXPECT_NE(refusal(options.get(), "timeout", "5").find("option timeout "), std::string::npos);
  EXPECT_EQ(refusal(nullptr, "timeout", "5s"), "options must not be NULL");
  EXPECT_EQ(refusal(options.get(), nullptr, "5s"), "name must not be NULL");
  EXPECT_EQ(refusal(options.get(), "timeout", nullptr), "value must not be NULL");
  EXPECT_EQ(skua_options_set(options.get(), "x", "y", nullptr), SKUA_INVALID_ARGUMENT);
}

TEST(Create, SaysWhyItFailed) {
  const OptionsPtr options(skua_options_create());
  ASSERT_EQ(skua_options_set(options.get(), "session-window", "3", nullptr), SKUA_OK);
  skua_error error = SKUA_ERROR_INIT;
  EXPECT_EQ(skua_client_create(options.get(), &error), nullptr);
  EXPECT_EQ(error.code, SKUA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.text).find("session_window"), std::string::npos);
  EXPECT_EQ(skua_client_create_polled(options.get(), &error), nullptr);
}

TEST(Create, NeedsNobodyThatListens) {
  const OptionsPtr options(skua_options_create());
  ASSERT_EQ(skua_options_set(options.get(), "control-address", "127.0.0.1:9", nullptr), SKUA_OK);
  ASSERT_EQ(skua_options_set(options.get(), "timeout", "100ms", nullptr), SKUA_OK);
  const ClientPtr client(skua_client_create(options.get(), nullptr));
  ASSERT_NE(client, nullptr);
  const ResultPtr result(skua_put(client.get(), "t", skua_text("k"), skua_text("v"), nullptr));
  EXPECT_EQ(skua_result_outcome(result.get()), SKUA_NOT_DONE);
  EXPECT_NE(skua_result_code(result.get()), SKUA_OK);
  EXPECT_STRNE(skua_result_text(result.get()), "");
}

/// What each thread of this process says of itself, by its number.
std::map<std::string, std::string> statuses_of_threads() {
  std::map<std::string, std::string> statuses;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "status");
    std::stringstream text;
    text << file.rdbuf();
    if (file.good() && !text.str().empty()) statuses[thread.path().filename()] = text.str();
  }
  return statuses;
}

bool blocks(const std::string& status, int signal) {
  return std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16) >> (signal - 1) & 1;
}

TEST(Create, LeavesSignalsToTheProgramsThreads) {
  const auto before = statuses_of_threads();
  const ClientPtr blocking(skua_client_create(nullptr, nullptr));
  const ClientPtr polled(skua_client_create_polled(nullptr, nullptr));
  ASSERT_NE(blocking, nullptr);
  ASSERT_NE(polled, nullptr);
  size_t made = 0;
  for (const auto& [number, status] : statuses_of_threads()) {
    if (before.contains(number)) continue;
    ++made;
    for (const int signal : {SIGTERM, SIGINT, SIGALRM, SIGUSR1}) {
      EXPECT_TRUE(blocks(status, signal)) << signal << "\n" << status;
    }
    // The C library starts a thread with all signals blocked, and the thread itself unblocks them.
    EXPECT_TRUE(control::eventually([&, thread = number] {
      const auto now = statuses_of_threads();
      const auto found = now.find(thread);
      return found == now.end() || !blocks(found->second, SIGSEGV);
    })) << status;
  }
  EXPECT_GE(made, 2u);
  sigset_t own;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &own), 0);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);
}

TEST(Errors, AreCutToTheCallersSize) {
  skua_error error = SKUA_ERROR_INIT;
  std::memset(error.text, '#', sizeof(error.text));
  error.size = offsetof(skua_error, text) + 6;
  EXPECT_EQ(skua_options_set(nullptr, "a", "b", &error), SKUA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.text, "optio");
  EXPECT_EQ(error.text[6], '#');
  error.size = 3;
  error.code = SKUA_OK;
  EXPECT_EQ(skua_options_set(nullptr, "a", "b", &error), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, SKUA_OK);
}

TEST(Version, IsTheProjects) {
  EXPECT_STRNE(skua_version(), "");
  EXPECT_STREQ(skua_code_name(SKUA_DATA_LOSS), "DATA_LOSS");
  EXPECT_STREQ(skua_code_name(77), "UNKNOWN");
}

}  // namespace
}  // namespace skua::c
