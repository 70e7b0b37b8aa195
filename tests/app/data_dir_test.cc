#include "app/data_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "app/uuid.h"
#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

using testing::HasSubstr;

constexpr char kUuid[] = "0d2f5f43-0000-4000-8000-00000000abcd";
constexpr char kCluster[] = "7c1e5a6b-0000-4000-8000-00000000abcd";
constexpr char kSecret[] = "51b0c2d9-0000-4000-8000-00000000abcd";
constexpr char kOtherCluster[] = "8c1e5a6b-0000-4000-8000-00000000abcd";

TEST(DataDir, ReadIdentity_NoneYet) {
  const TempDir dir;
  const auto identity = read_identity(dir.path());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_FALSE(identity->has_value());
}

TEST(DataDir, WriteIdentity_ReadsBackAndLeavesNothingAside) {
  const TempDir dir;
  const DataDirIdentity written{
      .role = "node", .format_version = 3, .node_uuid = kUuid, .cluster_id = kCluster, .secret = kSecret};
  ASSERT_TRUE(write_identity(dir.path(), written).ok());
  const auto read = read_identity(dir.path());
  ASSERT_TRUE(read.ok() && read->has_value()) << read.status();
  EXPECT_EQ((*read)->role, "node");
  EXPECT_EQ((*read)->format_version, 3);
  EXPECT_EQ((*read)->node_uuid, kUuid);
  EXPECT_EQ((*read)->cluster_id, kCluster);
  EXPECT_EQ((*read)->secret, kSecret);
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/identity.toml.new"));
}

TEST(DataDir, ReadIdentity_Damaged) {
  const std::string no_version = std::string("role = \"node\"\nnode_uuid = \"") + kUuid + "\"\nformat_version = 0\n";
  const std::string bad_uuid = "role = \"node\"\nformat_version = 1\nnode_uuid = \"x\"\n";
  for (const std::string& text : {std::string(), std::string("garbage"), no_version, bad_uuid}) {
    const TempDir dir;
    const std::string path = dir.write("identity.toml", text);
    const auto identity = read_identity(dir.path());
    EXPECT_EQ(identity.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(identity.status().message()), HasSubstr(path)) << text;
  }
}

TEST(DataDir, ReadIdentity_WhatIsNoFileIsNamed) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() + "/identity.toml");
  EXPECT_EQ(read_identity(dir.path()).status().message(), dir.path() + "/identity.toml is a directory");
}

TEST(DataDir, OpenIdentity_FreshThenTheSame) {
  const TempDir dir;
  const auto first = open_identity(dir.path(), "node", 1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(parse_uuid(first->node_uuid).ok());
  EXPECT_EQ(first->cluster_id, "");
  const auto second = open_identity(dir.path(), "node", 2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->node_uuid, first->node_uuid);
  EXPECT_TRUE(parse_uuid(first->secret).ok());
  EXPECT_EQ(second->secret, first->secret);
  EXPECT_EQ(second->format_version, 1);
}

TEST(DataDir, OpenIdentity_ADirectoryOfAnOlderReleaseGetsASecret) {
  const TempDir dir;
  const DataDirIdentity older{
      .role = "node", .format_version = 1, .node_uuid = kUuid, .cluster_id = kCluster, .secret = ""};
  ASSERT_TRUE(write_identity(dir.path(), older).ok());
  const auto opened = open_identity(dir.path(), "node", 1);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(parse_uuid(opened->secret).ok());
  EXPECT_EQ(opened->node_uuid, kUuid);
  EXPECT_EQ((*read_identity(dir.path()))->secret, opened->secret);
}

TEST(DataDir, Identity_IsItsOwnersAlone) {
  const TempDir dir;
  ASSERT_TRUE(open_identity(dir.path(), "node", 1).ok());
  EXPECT_EQ(std::filesystem::status(dir.path() + "/identity.toml").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(DataDir, OpenIdentity_ForeignRole) {
  const TempDir dir;
  ASSERT_TRUE(open_identity(dir.path(), "control", 1).ok());
  const auto node = open_identity(dir.path(), "node", 1);
  EXPECT_EQ(node.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(node.status().message()),
              HasSubstr("belongs to a skua-control, not to a skuad; give another --data-dir"));
}

TEST(DataDir, OpenIdentity_NewerFormat) {
  const TempDir dir;
  ASSERT_TRUE(open_identity(dir.path(), "node", 2).ok());
  const auto node = open_identity(dir.path(), "node", 1);
  EXPECT_EQ(node.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("format version 2"));
}

TEST(DataDir, AdoptCluster_OnceThenOnlyTheSame) {
  const TempDir dir;
  auto identity = open_identity(dir.path(), "node", 1);
  ASSERT_TRUE(identity.ok()) << identity.status();
  ASSERT_TRUE(adopt_cluster(dir.path(), *identity, kCluster).ok());
  EXPECT_EQ(identity->cluster_id, kCluster);
  auto again = open_identity(dir.path(), "node", 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->cluster_id, kCluster);
  EXPECT_TRUE(adopt_cluster(dir.path(), *again, kCluster).ok());
  const absl::Status foreign = adopt_cluster(dir.path(), *again, kOtherCluster);
  EXPECT_EQ(foreign.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(foreign.message()), HasSubstr(kOtherCluster));
  EXPECT_EQ(again->cluster_id, kCluster);
}

TEST(DataDir, WriteIdentity_NamesWhatFailed) {
  const TempDir dir;
  const absl::Status status =
      write_identity(dir.path() + "/none", {.role = "node", .format_version = 1, .node_uuid = kUuid, .cluster_id = ""});
  EXPECT_THAT(std::string(status.message()), HasSubstr("/none/identity.toml.new"));
}

}  // namespace
}  // namespace skua::app
