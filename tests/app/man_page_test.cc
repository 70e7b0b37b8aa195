// What mandoc thinks of pages is seen where it is installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "app/config.h"
#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

std::string output_of_shell(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe.get())) text.append(buffer.data(), got);
  return text;
}

/// A program whose texts have all that means something in mdoc.
std::string page() {
  static std::string output = "text";
  static std::string dir;
  static bool sync = true;
  static bool quiet = false;
  static int shards = 12;
  static std::string name;
  static std::vector<std::string> more;
  Program program(
      {.name = "skua-tool",
       .summary = "A tool.",
       .description = "It has a back\\slash. A \"quoted\" word.\n.Sh begins a line.\n\n'Another' paragraph.",
       .manual_section = 8});
  program.add_string("output", &output, "How to print: it's a choice. Or not.").one_of({"text", "json"});
  program.add_string("data-dir", &dir, "Where.").value_name("No");
  program.add_bool("sync", &sync, "Sync writes.");
  program.add_bool("quiet", &quiet, "Say less.").short_name('q');
  Command& create = program.add_command("table", "Tables").add_command("create", "Create a table");
  create.add_int("shards", &shards, "How many.").range(1, 64);
  create.add_positional("name", &name, "Its name.");
  create.add_positional_list("more", &more, "More names.").optional();
  create.example("skua-tool table create 'a b' --shards 3", "a table");
  program.example("skua-tool --output json", "prints JSON");
  return program.parse({"--man"}, {}).out;
}

TEST(ManPage, SaysWhatTheOptionsAre) {
  const std::string text = page();
  EXPECT_THAT(text, testing::HasSubstr("\n.Dt SKUA-TOOL 8\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n.Nd A tool\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n.It Fl \\-output Ar \"\\&text|json\"\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n.It Fl \\-[no\\-]sync\nSync writes.\n(default true)\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n.It Fl q , Fl \\-quiet\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n.Ss table create\n"));
  EXPECT_THAT(text, testing::HasSubstr("How many.\n(1 to 64, default 12)\n"));
}

TEST(ManPage, TextIsNeitherRequestNorMacro) {
  const std::string text = page();
  EXPECT_THAT(text, testing::HasSubstr("back\\eslash."));
  EXPECT_THAT(text, testing::HasSubstr("Ar \"\\&No\"\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("\n.Sh begins")));
}

TEST(ManPage, MandocFindsNothing) {
  if (output_of_shell("command -v mandoc").empty()) GTEST_SKIP() << "mandoc is not installed";
  const TempDir dir;
  const std::string file = dir.write("skua-tool.8", page());
  EXPECT_EQ(output_of_shell("mandoc -Tlint -Wwarning " + file + " 2>&1"), "");
  const std::string shown = output_of_shell("mandoc -Tutf8 " + file + " | col -b");
  EXPECT_THAT(shown, testing::HasSubstr("--data-dir No"));
  EXPECT_THAT(shown, testing::HasSubstr("'Another' paragraph."));
  EXPECT_THAT(shown, testing::HasSubstr("skua-tool table create 'a b' --shards 3"));
}

}  // namespace
}  // namespace skua::app
