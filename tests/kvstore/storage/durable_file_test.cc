#include "kvstore/storage/durable_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::TemporaryDirectory;

TEST(DurableFileTest, HasWhatItWasReplacedByLast) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_file(directory.path(), "file").value(), std::nullopt);
  for (const std::string& bytes : {std::string("first"), std::string(), std::string(100'000, '\0')}) {
    ASSERT_TRUE(replace_file(directory.path(), "file", bytes).ok());
    EXPECT_EQ(read_file(directory.path(), "file").value(), bytes);
  }
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/file.new"));
}

TEST(DurableFileTest, ErrorsNameThePath) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  std::filesystem::create_directory(path);
  for (const absl::Status& status :
       {read_file(directory.path(), "file").status(), replace_file(directory.path(), "file", "x"),
        replace_file(directory.path() + "/absent", "file", "x")}) {
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_NE(status.message().find("/file"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace skua::kv
