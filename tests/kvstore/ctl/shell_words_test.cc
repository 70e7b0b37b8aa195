#include "kvstore/ctl/shell_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skua::kv::ctl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShellWordsTest, BlanksSeparate) {
  EXPECT_THAT(split_command_line("").words, IsEmpty());
  EXPECT_THAT(split_command_line(" \t\r").words, IsEmpty());
  EXPECT_THAT(split_command_line("get  notes\tk\r").words, ElementsAre("get", "notes", "k"));
}

TEST(ShellWordsTest, QuotesKeepBlanksAndQuotesOfTheOtherKind) {
  EXPECT_THAT(split_command_line(R"(put t 'two words' "it's")").words, ElementsAre("put", "t", "two words", "it's"));
  EXPECT_THAT(split_command_line(R"(a'b c'd "")").words, ElementsAre("ab cd", ""));
}

TEST(ShellWordsTest, ABackslashStandsForItself) {
  EXPECT_THAT(split_command_line(R"(get t a\x00\\ '\n')").words, ElementsAre("get", "t", R"(a\x00\\)", R"(\n)"));
  EXPECT_THAT(split_command_line(R"(get t "\" k)").words, ElementsAre("get", "t", "\\", "k"));
}

TEST(ShellWordsTest, ANumberSignBeginsACommentOnlyAtAWord) {
  EXPECT_THAT(split_command_line("# all of it").words, IsEmpty());
  EXPECT_THAT(split_command_line("get t a#b # rest").words, ElementsAre("get", "t", "a#b"));
  EXPECT_THAT(split_command_line("get t '#b'").words, ElementsAre("get", "t", "#b"));
}

TEST(ShellWordsTest, TellsWhereTheLineEnds) {
  EXPECT_FALSE(split_command_line("").ends_in_word);
  EXPECT_TRUE(split_command_line("get").ends_in_word);
  EXPECT_FALSE(split_command_line("get ").ends_in_word);
  EXPECT_TRUE(split_command_line("get ''").ends_in_word);
  const ShellWords open = split_command_line("put t 'two wo");
  EXPECT_EQ(open.open_quote, '\'');
  EXPECT_TRUE(open.ends_in_word);
  EXPECT_THAT(open.words, ElementsAre("put", "t", "two wo"));
}

}  // namespace
}  // namespace skua::kv::ctl
