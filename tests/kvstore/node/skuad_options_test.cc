// skuad's options, as a command line, the environment or a file gives them.
#include "kvstore/node/skuad_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/node/skuad_gateway.h"
#include "kvstore/node/skuad_network.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// What the words on skuad's command line mean.
struct Parsed {
  explicit Parsed(Words words, const app::Environment& environment = {}, bool has_data_dir = true) {
    app::Program program({.name = "skuad", .summary = "Skua storage node"});
    declare(program, options);
    if (has_data_dir) words.insert(words.begin(), {"--data-dir", "/d"});
    outcome = program.parse(words, environment);
  }
  SkuadOptions options;
  app::ParseOutcome outcome;
};

/// The line that a user reads.
std::string complaint(const Words& words) {
  const Parsed parsed(words);
  EXPECT_FALSE(parsed.outcome.go_on);
  EXPECT_EQ(parsed.outcome.exit_code, 2);
  EXPECT_EQ(std::ranges::count(parsed.outcome.err, '\n'), 1) << parsed.outcome.err;
  return parsed.outcome.err;
}

SkuadOptions options_of(const Words& words) {
  Parsed parsed(words);
  EXPECT_TRUE(parsed.outcome.go_on) << parsed.outcome.err;
  return parsed.options;
}

TEST(SkuadOptions, OnlyTheDataDirectoryIsNeeded) {
  const SkuadOptions options = options_of({});
  EXPECT_EQ(options.data_dir, "/d");
  EXPECT_EQ(options.control_address, "127.0.0.1:7400");
  EXPECT_EQ(options.grpc_address, "127.0.0.1:7410");
  EXPECT_EQ(options.data_address, "127.0.0.1:7420");
  EXPECT_EQ(options.transport, TransportKind::kTcp);
  EXPECT_EQ(options.polling, Polling::kAdaptive);
  EXPECT_TRUE(options.sync_writes);
  EXPECT_FALSE(options.check_config);
  EXPECT_TRUE(check_network(options).ok());
  EXPECT_TRUE(check_gateway(options).ok());
  const Parsed without({}, {}, false);
  EXPECT_FALSE(without.outcome.go_on);
  EXPECT_THAT(without.outcome.err, HasSubstr("--data-dir"));
}

TEST(SkuadOptions, EachOptionHasItsOwnPlace) {
  const SkuadOptions options = options_of({"--control-address",
                                           "a:1,b:2",
                                           "--grpc-address",
                                           "0.0.0.0:1",
                                           "--data-address",
                                           "0.0.0.0:2",
                                           "--advertise-host",
                                           "node-1",
                                           "--zone",
                                           "rack 7",
                                           "--yield-timeout",
                                           "3s",
                                           "--workers",
                                           "4",
                                           "--polling",
                                           "busy",
                                           "--spin",
                                           "70us",
                                           "--transport",
                                           "verbs",
                                           "--verbs-device",
                                           "mlx5_0",
                                           "--dpdk-devices",
                                           "net_null0",
                                           "--reader-threads",
                                           "5",
                                           "--sessions-max",
                                           "600",
                                           "--message-memory",
                                           "17MiB",
                                           "--memory",
                                           "2GiB",
                                           "--block-cache",
                                           "300MiB",
                                           "--write-buffer",
                                           "100MiB",
                                           "--sync-writes=no",
                                           "--log-io",
                                           "io_uring",
                                           "--log-segment",
                                           "8MiB",
                                           "--disk-reserve",
                                           "9MiB",
                                           "--copy-rate",
                                           "10MiB",
                                           "--log-segments-max",
                                           "11",
                                           "--background-threads",
                                           "12",
                                           "--join-token",
                                           "secret",
                                           "--check-config"});
  EXPECT_EQ(options.control_address, "a:1,b:2");
  EXPECT_EQ(options.grpc_address, "0.0.0.0:1");
  EXPECT_EQ(options.data_address, "0.0.0.0:2");
  EXPECT_EQ(options.advertise_host, "node-1");
  EXPECT_EQ(options.zone, "rack 7");
  EXPECT_EQ(options.yield_timeout, 3 * kSecond);
  EXPECT_EQ(options.workers, 4u);
  EXPECT_EQ(options.polling, Polling::kBusy);
  EXPECT_EQ(options.spin, 70 * kMicrosecond);
  EXPECT_EQ(options.transport, TransportKind::kVerbs);
  EXPECT_EQ(options.verbs.device, "mlx5_0");
  EXPECT_EQ(options.dpdk.devices, "net_null0");
  EXPECT_EQ(options.reader_threads, 5);
  EXPECT_EQ(options.sessions_max, 600u);
  EXPECT_EQ(options.memory.messages, size_t{17} << 20);
  EXPECT_EQ(options.memory.node, size_t{2} << 30);
  EXPECT_EQ(options.memory.cache, size_t{300} << 20);
  EXPECT_EQ(options.memory.memtables, size_t{100} << 20);
  EXPECT_FALSE(options.sync_writes);
  EXPECT_EQ(options.log_io, LogIo::kIoUring);
  EXPECT_EQ(options.log_segment, size_t{8} << 20);
  EXPECT_EQ(options.disk_reserve, size_t{9} << 20);
  EXPECT_EQ(options.copy_rate, size_t{10} << 20);
  EXPECT_EQ(options.log_files.segments_max, 11u);
  EXPECT_EQ(options.background_threads, 12);
  EXPECT_EQ(options.join_token, "secret");
  EXPECT_TRUE(options.check_config);
}

TEST(SkuadOptions, TheFileAndTheEnvironmentHaveThemToo) {
  const testing::TemporaryDirectory directory;
  const std::string file = directory.path() + "/skuad.toml";
  std::ofstream(file) << "workers = 3\nzone = \"file\"\nlog_segment = \"2MiB\"\n";
  const Parsed parsed({"--config", file, "--zone", "flag"}, {{"SKUA_WORKERS", "5"}, {"SKUA_ZONE", "environment"}});
  ASSERT_TRUE(parsed.outcome.go_on) << parsed.outcome.err;
  EXPECT_EQ(parsed.options.log_segment, size_t{2} << 20);
  EXPECT_EQ(parsed.options.workers, 5u);
  EXPECT_EQ(parsed.options.zone, "flag");
}

TEST(SkuadOptions, WhatIsOutOfRangeIsRefused_ByName) {
  const std::vector<Words> wrong = {{"--workers", "0"},
                                    {"--workers", "257"},
                                    {"--reader-threads", "0"},
                                    {"--reader-threads", "257"},
                                    {"--sessions-max", "0"},
                                    {"--sessions-max", "65537"},
                                    {"--background-threads", "0"},
                                    {"--background-threads", "65"},
                                    {"--log-segments-max", "7"},
                                    {"--log-segments-max", "4097"},
                                    {"--yield-timeout", "3601s"},
                                    {"--polling", "lazy"},
                                    {"--transport", "udp"},
                                    {"--log-io", "mmap"},
                                    {"--memory", "much"},
                                    {"--grpc-address", "7410"},
                                    {"--data-address", "localhost.example:7420"},
                                    {"--control-address", "127.0.0.1"},
                                    {"--zone", "two\nlines"}};
  for (const Words& words : wrong) EXPECT_THAT(complaint(words), HasSubstr(words[0]));
  const std::vector<Words> right = {
      {"--workers", "256"},     {"--sessions-max", "65536"},  {"--log-segments-max", "8"},
      {"--yield-timeout", "0"}, {"--yield-timeout", "1h"},    {"--grpc-address", "node-1:0"},
      {"--zone", ""},           {"--data-address", "[::1]:0"}};
  for (const Words& words : right) EXPECT_TRUE(Parsed(words).outcome.go_on) << words[0] << " " << words[1];
}

TEST(SkuadOptions, ALogSegmentIsPages) {
  for (const char* size : {"1MiB", "1052672", "64MiB", "0"}) {
    EXPECT_TRUE(Parsed({"--log-segment", size}).outcome.go_on) << size;
  }
  for (const char* size : {"4KiB", "1044480", "1048577", "1050624"}) {
    EXPECT_THAT(complaint({"--log-segment", size}), HasSubstr("must be 0, or a multiple of 4KiB and at least 1MiB"));
  }
  EXPECT_THAT(complaint({"--log-segment", "large"}), HasSubstr("--log-segment"));
}

TEST(SkuadOptions, TransportsHaveTheNamesThatOptionsHave) {
  for (const TransportKind kind : {TransportKind::kTcp, TransportKind::kDpdk, TransportKind::kVerbs}) {
    EXPECT_EQ(options_of({"--transport", name_of(kind)}).transport, kind);
  }
}

TEST(SkuadOptions, AFileWithTheToken_IsNotForOthers) {
  const testing::TemporaryDirectory directory;
  const std::string file = directory.path() + "/skuad.toml";
  std::ofstream(file) << "join_token = \"skua-join-x\"\n";
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  const Parsed open({"--config", file});
  EXPECT_EQ(open.options.join_token, "skua-join-x");
  EXPECT_THAT(open.outcome.warnings, HasSubstr("--join-token"));
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  EXPECT_EQ(Parsed({"--config", file}).outcome.warnings, "");
}

// --- Where the node listens ------------------------------------------------------------------------------------------

TEST(SkuadListening, IsWhatTheAddressesSay) {
  const Listening tcp = listening_of(options_of({"--grpc-address", "localhost:1", "--data-address", "10.0.0.7:2",
                                                 "--workers", "3", "--advertise-host", "[fe80::1]"}));
  EXPECT_EQ(tcp.grpc_host, "127.0.0.1");
  EXPECT_EQ(tcp.grpc_port, 1);
  EXPECT_EQ(tcp.data_host, "10.0.0.7");
  EXPECT_EQ(tcp.data_port, 2);
  EXPECT_EQ(tcp.workers, 3u);
  EXPECT_EQ(tcp.advertise_host, "fe80::1");
  const Listening verbs = listening_of(options_of({"--transport", "verbs", "--advertise-host", "node-1"}));
  EXPECT_EQ(verbs.data_host, "") << "sessions do not run over TCP";
  EXPECT_EQ(verbs.data_port, 0);
  EXPECT_EQ(verbs.advertise_host, "node-1");
}

/// Each entrance as its option and whether only this machine reaches it.
std::vector<std::pair<std::string, bool>> entrances(const Words& words) {
  std::vector<std::pair<std::string, bool>> out;
  for (const control::Entrance& one : entrances_of(options_of(words))) out.emplace_back(one.option, one.is_local);
  return out;
}

TEST(SkuadEntrances, SayWhoGetsIn) {
  using Entrances = std::vector<std::pair<std::string, bool>>;
  EXPECT_EQ(entrances({}),
            (Entrances{{"--grpc-address 127.0.0.1:7410", true}, {"--data-address 127.0.0.1:7420", true}}));
  EXPECT_EQ(entrances({"--grpc-address", "node-1:1", "--data-address", "0.0.0.0:2"}),
            (Entrances{{"--grpc-address node-1:1", false}, {"--data-address 0.0.0.0:2", false}}));
  EXPECT_EQ(entrances({"--transport", "verbs"}).at(1), std::pair(std::string("--transport verbs"), false));
  EXPECT_EQ(entrances({"--transport", "dpdk", "--dpdk-devices", "net_null0"}).at(1),
            std::pair(std::string("--dpdk-devices net_null0"), true));
  EXPECT_EQ(entrances({"--transport", "dpdk", "--dpdk-devices", "0000:3b:00.0"}).at(1),
            std::pair(std::string("--dpdk-devices 0000:3b:00.0"), false));
}

// --- What does not go together ---------------------------------------------------------------------------------------

TEST(SkuadGateway, NeedsAnAddress_AndTcp) {
  const auto why = [](const Words& words) { return check_gateway(options_of(words)).ToString(); };
  EXPECT_THAT(why({"--databases", "0=cache"}), HasSubstr("give --resp-address or --memcached-address"));
  const Words served = {"--databases", "0=cache", "--resp-address", "127.0.0.1:6379"};
  EXPECT_EQ(why(served), "OK");
  Words over_verbs = served;
  over_verbs.insert(over_verbs.end(), {"--transport", "verbs"});
  EXPECT_THAT(why(over_verbs), HasSubstr("over verbs only: run skua-gateway beside it"));
}

TEST(SkuadNetwork, ADeviceOfTheTransportIsChecked_OthersAreNot) {
  EXPECT_FALSE(check_network(options_of({"--transport", "dpdk"})).ok());
  EXPECT_TRUE(check_network(options_of({"--dpdk-addresses", "nonsense"})).ok());
}

}  // namespace
}  // namespace skua::kv
