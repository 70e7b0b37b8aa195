#include "app/next_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skua::app {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class NextWordsTest : public testing::Test {
 protected:
  NextWordsTest() {
    program_.add_string("output", &output_, "How to print.").one_of({"text", "json"});
    program_.add_list("hosts", &hosts_, "Where.");
    program_.add_bool("raw", &raw_, "As it is.");
    Command& table = program_.add_command("table", "Tables");
    Command& create = table.add_command("create", "Make one");
    create.add_positional("name", &name_, "Its name.");
    create.add_bool("force", &force_, "Even so.").hidden();
    table.add_command("check", "Look at one");
    Command& get = program_.add_command("get", "Print values");
    get.add_positional("table", &name_, "Its name.");
    get.add_positional_list("keys", &keys_, "Keys.");
  }

  NextWords next(const std::vector<std::string>& before, std::string_view begun) {
    return next_words(program_, before, begun);
  }

  Program program_{{.name = "tool", .summary = "A tool"}};
  std::string output_ = "text";
  std::vector<std::string> hosts_;
  std::vector<std::string> keys_;
  bool raw_ = false;
  bool force_ = false;
  std::string name_;
};

TEST_F(NextWordsTest, CommandsThatBeginWithTheWord) {
  EXPECT_THAT(next({}, "").words, ElementsAre("table", "get"));
  EXPECT_THAT(next({}, "g").words, ElementsAre("get"));
  EXPECT_THAT(next({"table"}, "c").words, ElementsAre("create", "check"));
  EXPECT_THAT(next({"--raw", "table"}, "ch").words, ElementsAre("check"));
  EXPECT_THAT(next({}, "x").words, IsEmpty());
}

TEST_F(NextWordsTest, OptionsOfTheCommandAndOfThoseAroundIt) {
  EXPECT_THAT(next({"table", "create"}, "--").words, testing::Contains("--output"));
  EXPECT_THAT(next({"table", "create"}, "--").words, Not(testing::Contains("--force")));
  EXPECT_THAT(next({}, "--ho").words, ElementsAre("--hosts"));
}

TEST_F(NextWordsTest, ValuesOfAnOption) {
  EXPECT_THAT(next({"get", "--output"}, "").words, ElementsAre("text", "json"));
  EXPECT_THAT(next({"get", "--output"}, "j").words, ElementsAre("json"));
  EXPECT_THAT(next({"get", "--hosts"}, "").words, IsEmpty());
  EXPECT_EQ(next({"get", "--hosts"}, "").argument, "");
  // A bool takes no value: what follows is an argument.
  EXPECT_EQ(next({"get", "--raw"}, "").argument, "table");
}

TEST_F(NextWordsTest, PositionalArguments) {
  EXPECT_EQ(next({"get"}, "").argument, "table");
  EXPECT_EQ(next({"get", "notes"}, "").argument, "keys");
  EXPECT_EQ(next({"get", "notes", "a", "b"}, "").argument, "keys");
  EXPECT_EQ(next({"table", "create"}, "n").argument, "name");
  EXPECT_EQ(next({"table", "create", "notes"}, "").argument, "");
  EXPECT_EQ(next({"table"}, "").argument, "");
}

TEST_F(NextWordsTest, GivenFlagsAreThoseOfTheProgram) {
  ASSERT_TRUE(program_.parse({"--hosts=a,b", "get", "--raw", "notes", "k"}, {{"SKUA_OUTPUT", "json"}}).go_on);
  EXPECT_THAT(given_flags(program_), ElementsAre("--hosts=a", "--hosts=b", "--raw=true"));
}

}  // namespace
}  // namespace skua::app
