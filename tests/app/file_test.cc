#include "app/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

TEST(File, WriteThenRead_TheSameBytes) {
  const TempDir dir;
  const std::string path = dir.path() + "/f";
  const std::string bytes = std::string("a\0b\n", 4) + std::string(200'000, 'x');
  ASSERT_TRUE(write_file(path, bytes).ok());
  EXPECT_EQ(read_file(path).value(), bytes);
  ASSERT_TRUE(write_file(path, "").ok());
  EXPECT_EQ(read_file(path).value(), "");
}

TEST(File, ReadFile_SaysWhatIsWrong) {
  const TempDir dir;
  EXPECT_EQ(read_file(dir.path()).status(), absl::InvalidArgumentError(dir.path() + " is a directory"));
  EXPECT_EQ(read_file(dir.path() + "/none").status(),
            absl::NotFoundError(dir.path() + "/none: No such file or directory"));
  EXPECT_EQ(read_file("").status(), absl::InvalidArgumentError("the file's name is empty"));
  EXPECT_EQ(read_file(dir.write("f", "12345"), 5).value(), "12345");
  EXPECT_EQ(read_file(dir.write("f", "12345"), 4).status(),
            absl::InvalidArgumentError(dir.path() + "/f has more than 4 bytes"));
  EXPECT_FALSE(read_file("/dev/zero", 1 << 20).ok());
}

TEST(File, WriteFile_SaysWhatIsWrong) {
  const TempDir dir;
  EXPECT_EQ(write_file(dir.path(), "x"), absl::InvalidArgumentError(dir.path() + " is a directory"));
  EXPECT_EQ(write_file(dir.path() + "/none/f", "x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(write_file("/dev/full", "x"), absl::ResourceExhaustedError("/dev/full: No space left on device"));
}

TEST(File, CheckOutputFile_SaysWhatIsWrongAndMakesNothing) {
  const TempDir dir;
  EXPECT_TRUE(check_output_file(dir.path() + "/f").ok());
  EXPECT_EQ(read_file(dir.path() + "/f").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(check_output_file(dir.write("f", "12345")).ok());
  EXPECT_EQ(read_file(dir.path() + "/f").value(), "12345");
  EXPECT_TRUE(check_output_file("/dev/full").ok());
  EXPECT_EQ(check_output_file(dir.path()), absl::InvalidArgumentError(dir.path() + " is a directory"));
  EXPECT_EQ(check_output_file(dir.path() + "/none/f").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(check_output_file(dir.path() + "/f/g").code(), write_file(dir.path() + "/f/g", "x").code());
  EXPECT_EQ(check_output_file(""), absl::InvalidArgumentError("the file's name is empty"));
}

}  // namespace
}  // namespace skua::app
