#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/config.h"

namespace skua::app {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A program with commands, the shape of skuactl.
class ArgumentsTest : public testing::Test {
 protected:
  ArgumentsTest() : program_({.name = "tool", .summary = "A tool"}) {
    program_.add_choice<int>("output", &output_, {{"text", 1}, {"json", 2}}, "How to print.").short_name('o');
    program_.add_bool("verbose", &verbose_, "Say more.").short_name('v');
    Command& get = program_.add_command("get", "Read a key");
    get.add_positional("key", &key_, "The key.");
    get.action([] { return 11; });
    Command& put = program_.add_command("put", "Write keys");
    put.add_positional("key", &key_, "The key.");
    put.add_positional_list("values", &values_, "The values.");
    put.add_list("tag", &tags_, "Tags.");
    put.action([] { return 12; });
    Command& table = program_.add_command("table", "Tables");
    Command& create = table.add_command("create", "Create a table");
    create.add_positional("name", &key_, "Its name.").optional();
    create.add_int("shards", &shards_, "How many shards.").range(1, 4096);
    create.action([] { return 13; });
    table.add_command("list", "List tables").action([] { return 14; });
  }

  ParseOutcome parse(const std::vector<std::string>& arguments) { return program_.parse(arguments, {}); }
  std::string error(const std::vector<std::string>& arguments) {
    const ParseOutcome outcome = parse(arguments);
    EXPECT_FALSE(outcome.go_on);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  }

  Program program_;
  int output_ = 1;
  bool verbose_ = false;
  std::string key_;
  std::vector<std::string> values_;
  std::vector<std::string> tags_;
  uint32_t shards_ = 12;
};

TEST_F(ArgumentsTest, Scan_OuterOptionsMayFollowTheCommand) {
  ASSERT_TRUE(parse({"get", "k", "-o=json", "-v"}).go_on);
  EXPECT_EQ(program_.run(), 11);
  EXPECT_EQ(key_, "k");
  EXPECT_EQ(output_, 2);
  EXPECT_TRUE(verbose_);
}

TEST_F(ArgumentsTest, Scan_NestedCommand) {
  ASSERT_TRUE(parse({"-o", "json", "table", "create", "--shards=64", "usertable"}).go_on);
  EXPECT_EQ(program_.selected().path(), "table create");
  EXPECT_EQ(program_.run(), 13);
  EXPECT_EQ(key_, "usertable");
  EXPECT_EQ(shards_, 64u);
}

TEST_F(ArgumentsTest, Scan_AnyWordCanBeAKey) {
  ASSERT_TRUE(parse({"put", "get", "table", "++", "[a,b]", "", "-", "-5"}).go_on);
  EXPECT_EQ(key_, "get");
  EXPECT_THAT(values_, ElementsAre("table", "++", "[a,b]", "", "-", "-5"));
}

TEST_F(ArgumentsTest, Scan_DoubleDashEndsOptions) {
  ASSERT_TRUE(parse({"put", "--", "--output", "--", "-v"}).go_on);
  EXPECT_EQ(key_, "--output");
  EXPECT_THAT(values_, ElementsAre("--", "-v"));
}

TEST_F(ArgumentsTest, Scan_ListsAreCollected) {
  ASSERT_TRUE(parse({"put", "k", "v", "--tag", "a,b", "--tag=c"}).go_on);
  EXPECT_THAT(tags_, ElementsAre("a", "b", "c"));
}

TEST_F(ArgumentsTest, Scan_BoolForms) {
  verbose_ = true;
  ASSERT_TRUE(parse({"get", "k", "--no-verbose"}).go_on);
  EXPECT_FALSE(verbose_);
  EXPECT_EQ(error({"get", "k", "--no-color"}), "tool: unknown option --no-color (see tool get --help)\n");
}

TEST_F(ArgumentsTest, Scan_EmptyValueIsAValue) {
  EXPECT_EQ(error({"get", "k", "--output="}), "tool: --output must be text or json, not empty (see tool get --help)\n");
}

TEST_F(ArgumentsTest, Scan_UnknownOptionNamesTheNearest) {
  EXPECT_EQ(error({"get", "k", "--ouptut", "json"}),
            "tool: unknown option --ouptut; did you mean --output? (see tool get --help)\n");
  EXPECT_EQ(error({"get", "k", "-output", "json"}),
            "tool: unknown option -output; did you mean --output? (see tool get --help)\n");
  EXPECT_EQ(error({"get", "k", "-verbos"}),
            "tool: unknown option -verbos; did you mean --verbose? (see tool get --help)\n");
  EXPECT_EQ(error({"get", "k", "-x"}), "tool: unknown option -x (see tool get --help)\n");
  EXPECT_EQ(error({"get", "-x"}),
            "tool: unknown option -x; if it is no option, write -- before it (see tool get --help)\n");
}

TEST_F(ArgumentsTest, Scan_OptionOfAnotherCommand) {
  EXPECT_EQ(error({"get", "k", "--shards", "4"}),
            "tool: unknown option --shards; it belongs to `tool table create` "
            "(see tool get --help)\n");
}

TEST_F(ArgumentsTest, Scan_MissingValue) {
  EXPECT_EQ(error({"get", "k", "--output"}),
            "tool: --output needs a value: --output text|json (see tool get --help)\n");
  EXPECT_EQ(error({"get", "--output", "--verbose", "k"}),
            "tool: --output needs a value: --output text|json (see tool get --help)\n");
}

TEST_F(ArgumentsTest, Scan_GivenTwice) {
  EXPECT_EQ(error({"--output", "json", "get", "k", "-o", "text"}),
            "tool: --output is given twice (see tool get --help)\n");
}

TEST_F(ArgumentsTest, Scan_Commands) {
  EXPECT_EQ(error({}), "tool: a command is missing: one of get, put, table (see tool --help)\n");
  EXPECT_EQ(error({"gte"}), "tool: unknown command gte; did you mean get? (see tool --help)\n");
  EXPECT_EQ(error({"help"}), "tool: unknown command help; did you mean --help? (see tool --help)\n");
  EXPECT_EQ(error({"--verbose", "false"}),
            "tool: unexpected argument false; did you mean --verbose=false? (see tool --help)\n");
  EXPECT_EQ(error({"table", "zap"}), "tool: unknown command zap (see tool table --help)\n");
}

TEST_F(ArgumentsTest, Scan_Positionals) {
  EXPECT_EQ(error({"get"}), "tool: missing argument KEY (see tool get --help)\n");
  EXPECT_EQ(error({"get", "a", "b"}), "tool: unexpected argument b (see tool get --help)\n");
  EXPECT_EQ(error({"put", "a"}), "tool: missing argument VALUES (see tool put --help)\n");
}

TEST_F(ArgumentsTest, Scan_OptionalPositionalMayBeMissing) {
  ASSERT_TRUE(parse({"table", "create"}).go_on);
  EXPECT_THAT(key_, IsEmpty());
}

}  // namespace
}  // namespace skua::app
