#include "rpc/base/line_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace skua {
namespace {

namespace fs = std::filesystem;

class LineFileTest : public ::testing::Test {
 protected:
  LineFileTest() {
    std::string pattern = (fs::temp_directory_path() / "skua-line-file-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  ~LineFileTest() override { fs::remove_all(dir_); }
  static std::string text_of(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  fs::path dir_;
};

TEST_F(LineFileTest, Write_GoesBehindWhatIsThere) {
  LineFile(dir_ / "LOG", 1000).write("one");
  LineFile(dir_ / "LOG", 1000).write("two");
  EXPECT_EQ(text_of(dir_ / "LOG"), "one\ntwo\n");
}

TEST_F(LineFileTest, Write_BeginsAnewAtTheBound) {
  LineFile file(dir_ / "LOG", 20);
  for (int i = 0; i < 7; ++i) file.write("line number " + std::to_string(i));
  EXPECT_EQ(text_of(dir_ / "LOG.old"), "line number 4\nline number 5\n");
  EXPECT_EQ(text_of(dir_ / "LOG"), "line number 6\n");
}

TEST_F(LineFileTest, Write_TellsHowManyLinesWereLost) {
  LineFile file(dir_ / "later" / "LOG", 1000);
  file.write("one");
  file.write("two");
  fs::create_directory(dir_ / "later");
  file.write("three");
  file.write("four");
  EXPECT_EQ(text_of(dir_ / "later" / "LOG"), "(2 lines were lost: they could not be written)\nthree\nfour\n");
}

TEST_F(LineFileTest, Write_GoesOnWhereTheDiskIsFull) {
  LineFile file("/dev/full", 1000);
  for (int i = 0; i < 3; ++i) file.write("nowhere to go");
}

}  // namespace
}  // namespace skua
