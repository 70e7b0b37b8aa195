#include "control/proto/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"

namespace skua::control {
namespace {

TEST(ReplicaReport, SurvivesTheWire) {
  ReplicaReport report{"u", 3, "i", {}, {}, {}};
  report.suspicions.push_back({"accused", {{{1, 2}, 3}, {{1, 4}, 5}}, "slow"});
  report.caught_up.push_back({{{1, 2}, 3}, "learner"});
  report.join_ready.push_back({{{1, 2}, 3}, "learner", 8});
  report.doubts.push_back({{{1, 2}, 3}, 4, 5});
  report.doubts.push_back({{{6, 7}, 8}, 9, ~uint64_t{0}});
  const auto read = from_proto(to_proto(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->uuid, "u");
  EXPECT_EQ(read->incarnation, 3u);
  EXPECT_EQ(read->instance, "i");
  ASSERT_EQ(read->suspicions.size(), 1u);
  EXPECT_EQ(read->suspicions[0].shards.size(), 2u);
  ASSERT_EQ(read->caught_up.size(), 1u);
  EXPECT_EQ(read->caught_up[0].learner, "learner");
  ASSERT_EQ(read->join_ready.size(), 1u);
  EXPECT_EQ(read->join_ready[0].join, 8u);
  ASSERT_EQ(read->doubts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->doubts[i].shard.shard, report.doubts[i].shard.shard);
    EXPECT_EQ(read->doubts[i].shard.epoch, report.doubts[i].shard.epoch);
    EXPECT_EQ(read->doubts[i].last_epoch, report.doubts[i].last_epoch);
    EXPECT_EQ(read->doubts[i].last_index, report.doubts[i].last_index);
  }
}

TEST(ReplicaReport, OfTooManyDoubtsIsRefused) {
  ReplicaReport report{"u", 3, "i", {}, {}, {}};
  report.doubts.resize(kReportShardsMax);
  EXPECT_TRUE(from_proto(to_proto(report)).ok());
  report.doubts.emplace_back();
  EXPECT_EQ(from_proto(to_proto(report)).status().code(), absl::StatusCode::kInvalidArgument);
}

std::string reason_of(const std::string& grpc_message, grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
  return std::string(from_grpc({code, grpc_message}, "control plane at a:1").message());
}

TEST(FromGrpc, ReasonOfAConnectionIsShortAndNeverEmpty) {
  const std::string prefix = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7400: ";
  EXPECT_EQ(
      reason_of(prefix + "Failed to connect to remote host: Connection refused"),
      "control plane at a:1 cannot be reached (Connection refused). Check that it runs and that the address is right");
  EXPECT_EQ(reason_of(prefix + "Too many open files"),
            "control plane at a:1 cannot be reached (Too many open files). Raise the limit of open files here, with "
            "ulimit -n 65536");
  EXPECT_THAT(reason_of(prefix + "tcp handshaker shutdown"),
              testing::HasSubstr("(the connection was not made in time)"));
  EXPECT_THAT(
      reason_of(prefix + "Ssl handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong version number"),
      testing::HasSubstr("It has no certificate, and this program has one"));
  EXPECT_THAT(reason_of(prefix + "Socket closed"), testing::HasSubstr("closes new connections while too many begin"));
  for (const std::string& nothing :
       {prefix, std::string("failed to connect to all addresses; last error: "),
        std::string("failed to connect to all addresses"), std::string("failed to connect: : :")}) {
    const std::string reason = reason_of(nothing);
    EXPECT_EQ(reason.find("()"), std::string::npos) << reason;
    EXPECT_EQ(reason.find("( "), std::string::npos) << reason;
  }
  for (const auto code :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::UNIMPLEMENTED, grpc::StatusCode::NOT_FOUND}) {
    EXPECT_NE(reason_of("", code).find("without a reason"), std::string::npos);
  }
}

TEST(FromGrpc, NamesThatDoNotResolveAreSaidToBeThat) {
  const std::string reason = reason_of(
      "DNS resolution failed for nohost:7400: C-ares status is not ARES_SUCCESS qtype=A name=nohost is_balancer=0: "
      "Domain name not found");
  EXPECT_EQ(reason.find("ares"), std::string::npos) << reason;
  EXPECT_NE(reason.find("cannot be resolved"), std::string::npos) << reason;
}

TEST(UnservedShards, SurviveTheWire) {
  const ShardRef shard{{7, 9}, "damaged"};
  EXPECT_EQ(from_proto(to_proto(shard)), shard);
}

TEST(ShardMapQuotas, SurviveTheWire) {
  ShardMap map;
  map.cluster_id = "c";
  map.revision = 3;
  map.quotas = {{"client/a", {1, 2, 3, 4}}, {"client/b", {5, 0, 0, 0}}};
  v1::ShardMapSnapshot wire = to_proto(map);
  const auto again = from_proto(wire);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, map);
  wire.mutable_quotas(1)->set_principal("client/a");
  EXPECT_FALSE(from_proto(wire).ok()) << "twice";
}

TEST(ShardMapGrants, SurviveTheWireAndUnknownRightsGiveNothing) {
  ShardMap map;
  map.cluster_id = "c";
  map.revision = 3;
  map.tables.push_back({1, "t", std::vector<MapShard>(1)});
  map.tables[0].grants = {{"client/a", kRightRead | kRightScan}, {"client/b", kRightWrite}};
  v1::ShardMapSnapshot wire = to_proto(map);
  const auto again = from_proto(wire);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, map);
  wire.mutable_tables(0)->mutable_grants(1)->set_rights(8);
  const auto newer = from_proto(wire);
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ(newer->tables[0].grants[1], (MapGrant{"client/b", 0})) << "the table stays closed";
  wire.mutable_tables(0)->mutable_grants(1)->set_principal("client/a");
  EXPECT_FALSE(from_proto(wire).ok());
}

TEST(ShardMapHashTags, SurviveTheWireAndHideTheTableFromBuildsBefore) {
  ShardMap map;
  map.cluster_id = "c";
  map.revision = 3;
  map.tables.push_back({1, "t", std::vector<MapShard>(2)});
  map.tables[0].hash_tags = true;
  const v1::ShardMapSnapshot wire = to_proto(map);
  EXPECT_EQ(wire.tables(0).name(), "") << "what a client of a build before looks for";
  const auto again = from_proto(wire);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, map);
}

}  // namespace
}  // namespace skua::control
