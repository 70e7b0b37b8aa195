// The scripts are run by the shells themselves where they are installed (bash always is).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

#include "app/config.h"
#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

std::string script(const std::string& shell) {
  static std::string output = "text";
  static std::string dir;
  static int shards = 12;
  static bool force = false;
  Program program({.name = "skua-tool", .summary = "A tool"});
  program.add_string("output", &output, "How to print: it's a choice.").one_of({"text", "json"});
  program.add_string("data-dir", &dir, "Where.").value_name("DIR");
  Command& table = program.add_command("table", "Tables");
  Command& create = table.add_command("create", "Create a table");
  create.add_int("shards", &shards, "How many.");
  create.add_bool("force", &force, "Even so.").hidden();
  table.add_command("list", "List tables");
  program.add_command("status", "Status");
  return program.parse({"--completion", shell}, {}).out;
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), got);
  }
  return text;
}

// What bash offers after the words of `line`, the last of which is being typed.
std::string bash_offers(const std::string& words) {
  const TempDir dir;
  const std::string file = dir.write("completion.bash", script("bash"));
  const std::string run = dir.write("run.bash", "set -eu\nsource " + file + "\nCOMP_WORDS=(" + words +
                                                    ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_skua_tool\n"
                                                    "echo \"${COMPREPLY[*]-}\"\n");
  return output_of("bash " + run + " 2>&1");
}

TEST(Completion, Bash_CommandsAndOptions) {
  EXPECT_EQ(bash_offers("skua-tool ''"),
            "table status --config --print-config --completion --man --help --version --output "
            "--data-dir\n");
  EXPECT_EQ(bash_offers("skua-tool ta"), "table\n");
  EXPECT_EQ(bash_offers("skua-tool table l"), "list\n");
  EXPECT_EQ(bash_offers("skua-tool table create --s"), "--shards\n");
  EXPECT_EQ(bash_offers("skua-tool table create --ou"), "--output\n");
  EXPECT_EQ(bash_offers("skua-tool table create --f"), "\n");
  EXPECT_EQ(bash_offers("skua-tool status --sh"), "\n");
}

TEST(Completion, Bash_Values) {
  EXPECT_EQ(bash_offers("skua-tool --output ''"), "text json\n");
  EXPECT_EQ(bash_offers("skua-tool status --output j"), "json\n");
  EXPECT_EQ(bash_offers("skua-tool --data-dir /us"), "/usr\n");
  EXPECT_EQ(bash_offers("skua-tool table create --shards ''"), "\n");
}

TEST(Completion, Zsh_ScriptParses) {
  const std::string text = script("zsh");
  EXPECT_THAT(text, testing::StartsWith("#compdef skua-tool\n"));
  EXPECT_THAT(text, testing::HasSubstr("'--output:How to print\\: it'\\''s a choice.'"));
  if (output_of("command -v zsh").empty()) GTEST_SKIP() << "zsh is not installed";
  const TempDir dir;
  EXPECT_EQ(output_of("zsh -n " + dir.write("c.zsh", text) + " 2>&1"), "");
}

TEST(Completion, Fish_ScriptParses) {
  const std::string text = script("fish");
  EXPECT_THAT(text, testing::HasSubstr("-l output -x -a 'text json'"));
  if (output_of("command -v fish").empty()) GTEST_SKIP() << "fish is not installed";
  const TempDir dir;
  EXPECT_EQ(output_of("fish -n " + dir.write("c.fish", text) + " 2>&1"), "");
}

}  // namespace
}  // namespace skua::app
