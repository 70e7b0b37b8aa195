#include "kvstore/ctl/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::kv::ctl {
namespace {

using ::testing::ElementsAre;

/// The lines of `text`, which comes in blocks of `block_bytes`.
std::vector<std::string> lines_of(std::string_view text, size_t block_bytes, LineSplitter& splitter) {
  std::vector<std::string> lines;
  const auto take = [&] {
    while (const auto line = splitter.next()) lines.emplace_back(*line);
  };
  for (; !text.empty(); text.remove_prefix(std::min(block_bytes, text.size()))) {
    splitter.add(text.substr(0, block_bytes));
    take();
  }
  splitter.end();
  take();
  return lines;
}

TEST(LineSplitter, CutsAlikeWhateverTheBlocks) {
  for (size_t block_bytes = 1; block_bytes < 16; ++block_bytes) {
    LineSplitter whole(100);
    EXPECT_THAT(lines_of("one\n\ntwo three\r\nlast\n", block_bytes, whole),
                ElementsAre("one", "", "two three\r", "last"));
    LineSplitter open_end(100);
    EXPECT_THAT(lines_of("one\nno line break", block_bytes, open_end), ElementsAre("one", "no line break"));
    LineSplitter nothing(100);
    EXPECT_THAT(lines_of("", block_bytes, nothing), ElementsAre());
  }
}

TEST(LineSplitter, StopsAtALineThatIsTooLong) {
  for (size_t block_bytes = 1; block_bytes < 16; ++block_bytes) {
    LineSplitter splitter(5);
    EXPECT_THAT(lines_of("12345\n123456\n1\n", block_bytes, splitter), ElementsAre("12345"));
    EXPECT_TRUE(splitter.is_too_long());
    LineSplitter without_end(5);
    EXPECT_THAT(lines_of("123456", block_bytes, without_end), ElementsAre());
    EXPECT_TRUE(without_end.is_too_long());
  }
}

TEST(LineLedger, CountsTheLinesThatAreStoredFromTheBeginning) {
  LineLedger ledger(10);
  EXPECT_EQ(ledger.stored(), 10u);
  EXPECT_EQ(ledger.begin(), 11u);
  EXPECT_EQ(ledger.begin(), 12u);
  EXPECT_EQ(ledger.begin(), 13u);
  ledger.end(12);
  EXPECT_EQ(ledger.stored(), 10u) << "line 11 is not stored";
  ledger.end(11);
  EXPECT_EQ(ledger.stored(), 12u);
  EXPECT_EQ(ledger.begin(), 14u);
  ledger.end(14);
  EXPECT_EQ(ledger.stored(), 12u);
  ledger.end(13);
  EXPECT_EQ(ledger.stored(), 14u);
}

}  // namespace
}  // namespace skua::kv::ctl
