#include "kvstore/node/node_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

TEST(ParseState, TakesWhatFormatWrites) {
  const NodeState state{.incarnation = 7, .map_revision = 42};
  const auto parsed = parse_state(format_state(state));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, state);
}

TEST(ParseState, StorageIncarnationIsOneUnlessItSaysSo) {
  EXPECT_EQ(format_state({7, 42}).find("storage"), std::string::npos);
  const NodeState counted_up{.incarnation = 7, .map_revision = 42, .storage_incarnation = 3};
  const auto parsed = parse_state(format_state(counted_up));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, counted_up);
  EXPECT_FALSE(parse_state(format_state({7, 42}) + "storage_incarnation = 0\n").ok());
}

TEST(ParseState, RefusesANewerFormat) {
  std::string text = format_state({1, 2});
  text.replace(text.find("format_version = 1"), 18, "format_version = 2");
  EXPECT_EQ(parse_state(text).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(parse_state(text).status().message()), HasSubstr("newer version"));
}

TEST(ParseState, RefusesDamage) {
  const std::string whole = format_state({11, 222});
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(parse_state(whole.substr(0, cut)).ok()) << cut;
  }
  EXPECT_FALSE(parse_state(whole + "more = 1\n").ok());
  EXPECT_FALSE(parse_state("incarnation = 1\n").ok());
  EXPECT_FALSE(parse_state("#").ok());
}

TEST(ReadState, AllZeroWithoutAFile) {
  const testing::TemporaryDirectory directory;
  EXPECT_EQ(read_state(DirectoryFiles(directory.path())).value(), NodeState{});
}

TEST(WriteState, ReplacesWhatWasThere) {
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(write_state(DirectoryFiles(directory.path()), {1, 10}).ok());
  ASSERT_TRUE(write_state(DirectoryFiles(directory.path()), {2, 20}).ok());
  EXPECT_EQ(read_state(DirectoryFiles(directory.path())).value(), (NodeState{2, 20}));
}

TEST(ReadState, NamesTheFileThatIsDamaged) {
  const testing::TemporaryDirectory directory;
  std::ofstream(directory.path() + "/state") << "what is this";
  const absl::Status status = read_state(DirectoryFiles(directory.path())).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory.path() + "/state"));
}

TEST(WriteState, NamesAPathThatCannotBeWritten) {
  EXPECT_THAT(std::string(write_state(DirectoryFiles("/does/not/exist"), {}).message()),
              HasSubstr("/does/not/exist/state"));
}

}  // namespace
}  // namespace skua::kv
