#include "kvstore/node/data_dir_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

class DataDirChecks : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return directory_.path() + "/" + name; }
  testing::TemporaryDirectory directory_;
};

TEST_F(DataDirChecks, DataDirExists_TellsWhatIsThere) {
  EXPECT_TRUE(*data_dir_exists(directory_.path()));
  EXPECT_FALSE(*data_dir_exists(at("not/there")));
  EXPECT_EQ(nearest_directory(at("not/there")), directory_.path());
  std::ofstream(at("file")) << "x";
  for (const char* path : {"file", "file/below"}) {
    const absl::Status status = data_dir_exists(at(path)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/file is a file"));
  }
  std::filesystem::create_symlink("nowhere", at("link"));
  EXPECT_THAT(data_dir_exists(at("link")).status().ToString(), HasSubstr("is a link"));
}

TEST_F(DataDirChecks, DataDirExists_NamesTheUserWhoMayNotWrite) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ::chmod(directory_.path().c_str(), 0500);
  const absl::Status status = data_dir_exists(directory_.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("chown"));
  EXPECT_THAT(data_dir_exists(at("below")).status().ToString(), HasSubstr("cannot be made"));
  ::chmod(directory_.path().c_str(), 0700);
}

TEST_F(DataDirChecks, DataDirExists_NamesThePartThatIsAnothers) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  std::filesystem::create_directories(at("shards/1-0"));
  std::filesystem::create_directories(at("lost+found"));
  ::chmod(at("lost+found").c_str(), 0);
  EXPECT_TRUE(*data_dir_exists(directory_.path()));
  ::chmod(at("shards/1-0").c_str(), 0);
  EXPECT_THAT(data_dir_exists(directory_.path()).status().ToString(), HasSubstr("no access to " + at("shards/1-0")));
  ::chmod(at("shards/1-0").c_str(), 0700);
  EXPECT_TRUE(*data_dir_exists(directory_.path()));
}

TEST_F(DataDirChecks, CheckHasNoData_RefusesWhatANewNodeWouldTakeForItsOwn) {
  EXPECT_TRUE(check_has_no_data(directory_.path()).ok());
  std::ofstream(at("notes.txt")) << "x";
  EXPECT_TRUE(check_has_no_data(directory_.path()).ok());
  std::filesystem::create_directory(at("shards"));
  const absl::Status status = check_has_no_data(directory_.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("identity.toml"));
}

TEST_F(DataDirChecks, IsInMemory_KnowsTmpfs) {
  EXPECT_FALSE(is_in_memory("/proc"));
  EXPECT_FALSE(is_in_memory(at("not/there")));
}

}  // namespace
}  // namespace skua::kv
