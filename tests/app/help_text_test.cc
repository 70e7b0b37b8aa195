#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/config.h"

namespace skua::app {
namespace {

TEST(HelpText, HelpText_ProgramWithoutCommands) {
  Program program({.name = "skuad",
                   .summary = "Skua storage node",
                   .description = "Serves shards.\nStays up.\n\nSecond paragraph."});
  std::string dir;
  int workers = 2;
  bool quiet = false;
  bool sync = true;
  int replicas = 1;
  int64_t hidden = 0;
  program.add_string("data-dir", &dir, "Where the node keeps its data.").value_name("DIR").required();
  program
      .add_int("workers", &workers,
               "Polling threads; each owns an endpoint, a set of shards and one stream of the log.")
      .range(1, 64)
      .unit("threads");
  program.add_bool("quiet", &quiet, "Say less.").short_name('q');
  program.add_bool("sync", &sync, "Sync writes.");
  program.add_int("replicas", &replicas, "Of each shard.").unit("nodes");
  program.add_int("hidden", &hidden, "For nobody.").hidden();
  program.example("skuad --data-dir /var/lib/skua", "a node with everything at its default");
  const ParseOutcome outcome = program.parse({"--help"}, {});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            R"(skuad: Skua storage node

usage: skuad [options]

Serves shards. Stays up.

Second paragraph.

options:
  --data-dir DIR              Where the node keeps its data. (required)
  --workers N                 Polling threads; each owns an endpoint, a set of shards and one stream
                              of the log. (1 to 64, default 2 threads)
  -q, --quiet                 Say less.
  --[no-]sync                 Sync writes. (default true)
  --replicas N                Of each shard. (default 1 node)

general options:
  --config FILE               Read the configuration from this TOML file.
  --print-config              Print every value and where it came from (as valid TOML), and exit.
  --completion bash|zsh|fish  Print a completion script for this shell, and exit.
  --man                       Print the manual page (for man -l), and exit.
  -h, --help                  Print this help and exit.
  --version                   Print the version and exit.

examples:
  skuad --data-dir /var/lib/skua
      a node with everything at its default

Each option is also an environment variable (--some-name is SKUA_SOME_NAME) and a key in the --config file (some_name).
A flag beats the environment, which beats the file, which beats the default.
)");
}

TEST(HelpText, HelpText_Commands) {
  Program program({.name = "tool", .summary = "A tool"});
  std::string output = "text";
  std::string key;
  std::vector<std::string> more;
  int shards = 12;
  program.add_string("output", &output, "How to print.").one_of({"text", "json"});
  Command& table = program.add_command("table", "Tables");
  Command& create = table.add_command("create", "Create a table");
  create.add_positional("name", &key, "Its name.");
  create.add_positional_list("more", &more, "More names.").optional();
  create.add_int("shards", &shards, "How many shards.");
  const std::string top = program.parse({"--help"}, {}).out;
  EXPECT_THAT(top, testing::HasSubstr("usage: tool [options] COMMAND\n"));
  EXPECT_THAT(top, testing::HasSubstr("commands:\n  table                       Tables\n"));
  EXPECT_THAT(top, testing::HasSubstr("  --output text|json          How to print. (default text)"));

  const std::string inner = program.parse({"table", "create", "--help"}, {}).out;
  EXPECT_THAT(inner, testing::HasSubstr("usage: tool table create [options] NAME [MORE...]\n"));
  EXPECT_THAT(inner, testing::HasSubstr("arguments:\n  NAME                        Its name.\n"));
  EXPECT_THAT(inner, testing::HasSubstr("options of tool:\n  --output"));
  EXPECT_THAT(inner, testing::HasSubstr("SKUA_TABLE_CREATE_SOME_NAME"));
  EXPECT_THAT(inner, testing::HasSubstr("under [table.create]"));
}

TEST(HelpText, HelpText_FoldsOptionsThatFewNeed) {
  Program program({.name = "tool", .summary = "A tool"});
  std::string output = "text";
  std::string device;
  std::string cert;
  int limit = 10;
  program.add_string("output", &output, "How to print.");
  program.fold_options("the connection", [&] {
    program.add_string("device", &device, "What to send by.");
    program.add_string("cert", &cert, "Who one is.");
  });
  Command& get = program.add_command("get", "Gets");
  get.add_int("limit", &limit, "At most.");
  get.example("tool get", "one");
  EXPECT_EQ(program.parse({"get", "--help"}, {}).out, R"(tool get: Gets

usage: tool get [options]

options:
  --limit N                   At most. (default 10)

examples:
  tool get
      one

options of tool:
  --output TEXT               How to print. (default text)
  and 2 options of the connection: tool --help-all
  and 7 general options: tool --help

Each option is also an environment variable (--some-name is SKUA_GET_SOME_NAME) and a key in the --config file (some_name under [get]).
A flag beats the environment, which beats the file, which beats the default.
)");
  const std::string top = program.parse({"--help"}, {}).out;
  EXPECT_THAT(top, testing::HasSubstr("(default text)\n  and 2 options of the connection: tool --help-all\n"));
  EXPECT_THAT(top, testing::HasSubstr("general options:\n  --config"));
  EXPECT_THAT(top, testing::Not(testing::HasSubstr("--device")));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help-all"}, {"get", "--help-all"}}) {
    const std::string all = program.parse(words, {}).out;
    EXPECT_THAT(all, testing::HasSubstr("  --device TEXT               What to send by.\n"));
    EXPECT_THAT(all, testing::HasSubstr("general options:\n  --config"));
    EXPECT_THAT(all, testing::Not(testing::HasSubstr("options of the connection")));
  }
  for (const char* how : {"--man", "--completion=bash", "--completion=zsh", "--completion=fish"}) {
    EXPECT_THAT(program.parse({how}, {}).out, testing::HasSubstr("device")) << how;
  }
}

TEST(HelpText, HelpText_OfACommandByItsWords) {
  Program program({.name = "tool", .summary = "A tool"});
  program.add_command("table", "Tables").add_command("create", "Makes one");
  EXPECT_THAT(*program.help_of({}), testing::HasSubstr("tool: A tool"));
  EXPECT_THAT(*program.help_of({"table", "create"}), testing::HasSubstr("tool table create: Makes one"));
  EXPECT_EQ(program.help_of({"table", "drop"}).status().message(), "tool table has no command drop");
  EXPECT_EQ(program.help_of({"tabel"}).status().message(), "tool has no command tabel");
}

}  // namespace
}  // namespace skua::app
