#include "kvstore/node/view_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::TemporaryDirectory;

ShardViews two_views() {
  View view;
  view.epoch = 7;
  view.change = 12;
  view.primary = 3;
  view.members = {{3, 1}, {9, 1}};
  view.learners = {{{11, 2}, 5}};
  view.min_insync = 2;
  view.read_anywhere = true;
  view.fork = 3;
  View other;
  other.epoch = 1;
  return {{{1, 0}, view}, {{4, 17}, other}};
}

TEST(ViewFile, IsEmptyWhereThereIsNone) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_views(DirectoryFiles(directory.path())).value(), ShardViews{});
}

/// A node that began without its views would take an older primary's word.
TEST(ViewFile, ThatCannotBeReadIsNotTakenForNone) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("views", directory.path() + "/views");
  const absl::Status status = read_views(DirectoryFiles(directory.path())).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_NE(status.message().find(directory.path() + "/views"), std::string::npos) << status;
}

TEST(ViewFile, KeepsWhatWasWritten) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_views(DirectoryFiles(directory.path()), {}).ok());
  ASSERT_TRUE(write_views(DirectoryFiles(directory.path()), two_views()).ok());
  EXPECT_EQ(read_views(DirectoryFiles(directory.path())).value(), two_views());
}

TEST(ViewFile, DamageIsToldWithTheFileAndAWayOut) {
  const std::string bytes = encode_views(two_views()).value();
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    EXPECT_FALSE(decode_views(flipped).ok()) << at;
    EXPECT_FALSE(decode_views(std::string_view(bytes).substr(0, at)).ok()) << at;
  }
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/views") << bytes.substr(1);
  const absl::Status damaged = read_views(DirectoryFiles(directory.path())).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(damaged.message().find(directory.path() + "/views"), std::string::npos);
  EXPECT_NE(damaged.message().find("restore"), std::string::npos);
}

}  // namespace
}  // namespace skua::kv
