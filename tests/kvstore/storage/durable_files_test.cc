#include "kvstore/storage/durable_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::TemporaryDirectory;

TEST(DurableFilesTest, HasWhatItWasReplacedByLast) {
  const TemporaryDirectory directory;
  const DirectoryFiles files(directory.path());
  EXPECT_EQ(files.read("file").value(), std::nullopt);
  for (const std::string& bytes : {std::string("first"), std::string(), std::string(100'000, '\0')}) {
    ASSERT_TRUE(files.replace("file", bytes).ok());
    EXPECT_EQ(files.read("file").value(), bytes);
  }
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/file.new"));
}

TEST(DurableFilesTest, ErrorsNameThePath) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  std::filesystem::create_directory(path);
  for (const absl::Status& status :
       {DirectoryFiles(directory.path()).read("file").status(), DirectoryFiles(directory.path()).replace("file", "x"),
        DirectoryFiles(directory.path() + "/absent").replace("file", "x")}) {
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_NE(status.message().find("/file"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace skua::kv
