#include "kvstore/node/skuad_node_options.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace skua::kv {
namespace {

constexpr size_t kNodeMiB = size_t{1} << 20;
constexpr uint64_t kLargeDisk = uint64_t{1} << 40;

NodeOptions node_of(const SkuadOptions& config, uint64_t disk_bytes = kLargeDisk) {
  return node_options(config, memory_budget(config).value(), disk_bytes);
}

TEST(SkuadNodeOptions, TheBudgetIsOfTheSharesThatOptionsGive) {
  SkuadOptions config;
  config.memory.node = 900 * kNodeMiB;
  config.workers = 2;
  config.memory.cache = 200 * kNodeMiB;
  config.memory.memtables = 50 * kNodeMiB;
  config.memory.messages = 40 * kNodeMiB;
  const MemoryBudget budget = memory_budget(config).value();
  EXPECT_EQ(budget.node, config.memory.node);
  EXPECT_EQ(budget.cache, config.memory.cache);
  EXPECT_EQ(budget.memtables, config.memory.memtables);
  EXPECT_EQ(budget.messages, config.memory.messages);
  EXPECT_EQ(budget.program, split_memory({.node = config.memory.node, .workers = 2}).value().program);
  config.memory.node = 50 * kNodeMiB;
  EXPECT_TRUE(absl::IsInvalidArgument(memory_budget(config).status()));
}

TEST(SkuadNodeOptions, EachShareGoesToItsUser) {
  const SkuadOptions config;
  const MemoryBudget budget = memory_budget(config).value();
  const NodeOptions node = node_of(config);
  EXPECT_EQ(node.memory_bytes, budget.tier);
  EXPECT_EQ(node.storage.cache_bytes, budget.cache);
  EXPECT_EQ(node.storage.write_buffer_bytes, budget.memtables);
  EXPECT_EQ(node.endpoint.memory_limit_bytes, budget.messages);
  EXPECT_EQ(node.endpoint.answers_limit_bytes, std::max(budget.messages, 64 * kNodeMiB));
  EXPECT_EQ(node.memory_budget.value().node, budget.node);
  EXPECT_LE(node.server.engine.unfinished_bytes_max, budget.messages / 2);
  EXPECT_FALSE(node.probe_transports) << "skuad has looked at the addresses";
}

TEST(SkuadNodeOptions, WithFewMessages_AnswersStillHaveRoom) {
  SkuadOptions config;
  config.memory.messages = 16 * kNodeMiB;
  const NodeOptions node = node_of(config);
  EXPECT_EQ(node.endpoint.memory_limit_bytes, 16 * kNodeMiB);
  EXPECT_EQ(node.endpoint.answers_limit_bytes, 64 * kNodeMiB);
  EXPECT_EQ(node.server.engine.unfinished_bytes_max, 8 * kNodeMiB);
}

TEST(SkuadNodeOptions, DiskSizesFollowTheDisk_UnlessOptionsSayThem) {
  SkuadOptions config;
  for (const uint64_t disk : {uint64_t{1} << 30, kLargeDisk}) {
    EXPECT_EQ(disk_sizes(config, disk).log_segment_bytes, sizes_for_disk(disk, 1).log_segment_bytes);
    EXPECT_EQ(disk_sizes(config, disk).reserve_bytes, sizes_for_disk(disk, 1).reserve_bytes);
  }
  config.log_segment = 2 * kNodeMiB;
  EXPECT_EQ(disk_sizes(config, kLargeDisk).log_segment_bytes, config.log_segment);
  EXPECT_EQ(disk_sizes(config, kLargeDisk).reserve_bytes, kDiskReserveBytesMax);
  config.disk_reserve = 7 * kNodeMiB;
  EXPECT_EQ(disk_sizes(config, kLargeDisk).reserve_bytes, config.disk_reserve);
  const NodeOptions node = node_of(config);
  EXPECT_EQ(node.log_files.segment_bytes, config.log_segment);
  EXPECT_EQ(node.log_files.group_bytes_max, kNodeMiB) << "a group fits half a segment";
  EXPECT_EQ(node.disk_reserve_bytes, config.disk_reserve);
}

TEST(SkuadNodeOptions, AQuarterOfTheSessionsIsForNodes_AndNoHostHasAll) {
  SkuadOptions config;
  config.sessions_max = 400;
  const rpc::EndpointOptions endpoint = node_of(config).endpoint;
  EXPECT_EQ(endpoint.sessions_max, 400u);
  EXPECT_EQ(endpoint.sessions_reserved, 100u);
  EXPECT_EQ(endpoint.sessions_per_host_max, 200u);
  EXPECT_EQ(endpoint.sessions_per_peer_max, kSessionsPerPeerMax);
  config.sessions_max = 1;
  const rpc::EndpointOptions least = node_of(config).endpoint;
  EXPECT_EQ(least.sessions_per_peer_max, 1u);
  EXPECT_EQ(least.sessions_per_host_max, 1u);
}

TEST(SkuadNodeOptions, WhatOptionsSayIsDone) {
  SkuadOptions config;
  config.data_dir = "/d";
  config.zone = "rack 7";
  config.control_address = "c:1";
  config.grpc_address = "g:2";
  config.advertise_host = "node-1";
  config.workers = 3;
  config.reader_threads = 4;
  config.background_threads = 5;
  config.copy_rate = 6;
  config.log_io = LogIo::kPwritev2;
  config.log_files.segments_max = 9;
  config.spin = 8 * kMicrosecond;
  config.traffic.congestion = rpc::CongestionControl::kNone;
  NodeOptions node = node_of(config);
  EXPECT_EQ(node.data_dir, "/d");
  EXPECT_EQ(node.zone, "rack 7");
  EXPECT_EQ(node.control_address, "c:1");
  EXPECT_EQ(node.grpc_address, "g:2");
  EXPECT_EQ(node.advertise_host, "node-1");
  EXPECT_EQ(node.workers, 3u);
  EXPECT_EQ(node.reader_threads, 4);
  EXPECT_EQ(node.storage.background_threads, 5);
  EXPECT_EQ(node.copy_bytes_per_s, 6u);
  EXPECT_EQ(node.log_io, LogIo::kPwritev2);
  EXPECT_EQ(node.log_files.segments_max, 9u);
  EXPECT_EQ(node.endpoint.spin_ns, config.spin);
  EXPECT_EQ(node.endpoint.protocol.congestion, rpc::CongestionControl::kNone);
  EXPECT_EQ(node.server.engine.durability, Durability::kSync);
  EXPECT_NE(node.instance, node_of(config).instance) << "it is new in each process";
  config.polling = Polling::kBusy;
  config.sync_writes = false;
  config.copy_rate = 0;
  node = node_of(config);
  EXPECT_EQ(node.endpoint.spin_ns, kTimeNever);
  EXPECT_EQ(node.server.engine.durability, Durability::kFlush);
  EXPECT_GT(node.copy_bytes_per_s, 0u) << "by the machine's processors";
}

TEST(SkuadNodeOptions, ThreadsAreThoseOfAllParts) {
  SkuadOptions config;
  config.gateway.listen_address.clear();
  const size_t before = threads_of(config);
  config.workers += 2;
  EXPECT_EQ(threads_of(config), before + 6);
  config.reader_threads += 3;
  config.background_threads += 4;
  EXPECT_EQ(threads_of(config), before + 13);
  config.gateway.threads = 5;
  EXPECT_EQ(threads_of(config), before + 13) << "there is no gateway";
  config.gateway.memcached_address = "127.0.0.1:11211";
  EXPECT_EQ(threads_of(config), before + 13 + 4 + 2 * 5);
  config.gateway.threads = 0;
  EXPECT_EQ(threads_of(config), before + 13 + 4 + config.workers) << "the clients of the workers' loops";
}

}  // namespace
}  // namespace skua::kv
