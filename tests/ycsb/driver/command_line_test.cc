#include "ycsb/driver/command_line.h"

#include <gtest/gtest.h>

#include "ycsb/bindings/basic.h"

namespace skua::ycsb {
namespace {

const std::vector<BindingEntry>& bindings() {
  static const std::vector<BindingEntry> table = {basic_binding()};
  return table;
}

absl::StatusOr<std::string> read_file(const std::string& path) {
  if (path == "workloada") return "recordcount=1000\nreadproportion=0.5\n";
  if (path == "more") return "recordcount=2000\n";
  if (path == "broken") return "a=\\u1\n";
  if (path == "twice") return "recordcount=5\nlabel=x\nrecordcount=6\nlabel=x\n";
  if (path == "program")
    return std::string(
        "\x7f"
        "ELF\x02\x01\x00=x",
        9);
  if (path == "control") return "far.control=file:1\n";
  return absl::NotFoundError(path + ": No such file or directory");
}

absl::StatusOr<CommandLine> parse(const std::vector<std::string>& arguments) {
  return parse_command_line(arguments, bindings(), {.read_file = &read_file});
}

std::string value(const absl::StatusOr<CommandLine>& line, std::string_view name) {
  if (!line.ok()) return std::string(line.status().message());
  return std::string(line->properties.find(name).value_or("(none)"));
}

TEST(CommandLine, Parse_PhaseBindingAndOptions) {
  const auto line = parse({"run", "basic", "-P", "workloada", "-p", "recordcount=5", "-threads", "4", "-target", "100",
                           "-s", "-inflight", "8", "-l", "x "});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->binding->name, "basic");
  EXPECT_EQ(value(line, "dotransactions"), "true");
  EXPECT_EQ(value(line, "recordcount"), "5");
  EXPECT_EQ(value(line, "readproportion"), "0.5");
  EXPECT_EQ(value(line, "threadcount"), "4");
  EXPECT_EQ(value(line, "target"), "100");
  EXPECT_EQ(value(line, "status"), "true");
  EXPECT_EQ(value(line, "kv.inflight"), "8");
  EXPECT_EQ(value(line, "label"), "x ");
  EXPECT_TRUE(line->warnings.empty());
  EXPECT_EQ(value(parse({"load", "basic"}), "dotransactions"), "false");
}

TEST(CommandLine, Parse_OptionsWinOverFilesWhereverTheyStand) {
  EXPECT_EQ(value(parse({"run", "basic", "-p", "recordcount=5", "-P", "workloada"}), "recordcount"), "5");
  EXPECT_EQ(value(parse({"run", "basic", "-P", "workloada", "-P", "more"}), "recordcount"), "2000");
  EXPECT_EQ(value(parse({"run", "basic", "-p", "label=a=b"}), "label"), "a=b");
}

TEST(CommandLine, Parse_JavasForm) {
  const auto line = parse({"-load", "-db", "site.ycsb.BasicDB", "-P", "workloada", "--threads", "2"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->binding->name, "basic");
  EXPECT_EQ(value(line, "dotransactions"), "false");
  EXPECT_EQ(value(line, "threadcount"), "2");
  EXPECT_EQ(line->warnings.size(), 1U);
  EXPECT_EQ(value(parse({"-t", "-db", "basic"}), "dotransactions"), "true");
}

TEST(CommandLine, Parse_HelpAndVersion) {
  EXPECT_EQ(parse({"--help"})->action, CommandLine::Action::kHelp);
  EXPECT_EQ(parse({"run", "-h"})->action, CommandLine::Action::kHelp);
  EXPECT_EQ(parse({"--version"})->action, CommandLine::Action::kVersion);
}

TEST(CommandLine, Parse_NothingIsAMistake) {
  EXPECT_NE(parse({}).status().message().find("load or run?"), std::string_view::npos);
}

TEST(CommandLine, Parse_PropertiesOfABindingAreOptions) {
  constexpr std::array<std::array<std::string_view, 3>, 2> kProperties = {
      {{"far.wire.udp_port", "", ""}, {"far.on", "", ""}}};
  BindingEntry far = basic_binding();
  far.name = "far";
  far.properties = kProperties;
  const auto parse_far = [&](const std::vector<std::string>& arguments) {
    return parse_command_line(arguments, std::vector<BindingEntry>{basic_binding(), far}, {.read_file = &read_file});
  };
  EXPECT_EQ(value(parse_far({"run", "far", "--wire-udp-port", "5"}), "far.wire.udp_port"), "5");
  EXPECT_EQ(value(parse_far({"run", "--on=a=b", "far"}), "far.on"), "a=b");
  EXPECT_EQ(value(parse_far({"run", "far", "--on"}), ""), "--on needs a value");
  EXPECT_EQ(value(parse_far({"run", "far", "--wire", "5"}), "").substr(0, 21), "unknown option --wire");
}

// -p > option > -P file > environment and --config file > default.
TEST(CommandLine, Parse_WhoSaysWhereTheControlPlaneIs) {
  constexpr std::array<std::array<std::string_view, 3>, 1> kProperties = {{{"far.control", "", ""}}};
  constexpr std::array<std::array<std::string_view, 2>, 1> kOptions = {{{"control-address", "far.control"}}};
  BindingEntry far = basic_binding();
  far.name = "far";
  far.properties = kProperties;
  far.options = kOptions;
  std::string config_file;
  Surroundings around = {.read_file = &read_file,
                         .options = [&](const std::string& file) -> absl::StatusOr<OptionValues> {
                           config_file = file;
                           if (file == "bad.toml") return absl::InvalidArgumentError("bad.toml:1: unknown key x");
                           return OptionValues{{"control-address", "environment:1"}, {"unheard-of", "1"}};
                         }};
  const auto control = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "far"});
    return value(parse_command_line(arguments, std::vector<BindingEntry>{basic_binding(), far}, around), "far.control");
  };
  EXPECT_EQ(control({}), "environment:1");
  EXPECT_EQ(config_file, "");
  EXPECT_EQ(control({"--config", "a.toml"}), "environment:1");
  EXPECT_EQ(config_file, "a.toml");
  EXPECT_EQ(control({"--config=b.toml"}), "environment:1");
  EXPECT_EQ(config_file, "b.toml");
  EXPECT_EQ(control({"--config", "bad.toml"}), "bad.toml:1: unknown key x");
  EXPECT_EQ(control({"-P", "control"}), "file:1");
  EXPECT_EQ(control({"--control-address", "option:1", "-P", "control"}), "option:1");
  EXPECT_EQ(control({"-p", "far.control=property:1", "--control-address=option:1", "-P", "control"}), "property:1");
  around.options = nullptr;
  EXPECT_EQ(control({}), "(none)");
}

TEST(CommandLine, Parse_EqualsSignsAfterOptions) {
  EXPECT_EQ(value(parse({"run", "basic", "-threads=4"}), "threadcount"), "4");
  EXPECT_EQ(value(parse({"run", "basic", "--target=1e3"}), "target"), "1e3");
  EXPECT_EQ(value(parse({"run", "basic", "-s=true"}), "status"), "-s takes no value");
}

TEST(CommandLine, Parse_WhatAFileSaysTwiceIsWarnedOf) {
  const auto line = parse({"run", "basic", "-P", "twice"});
  EXPECT_EQ(value(line, "recordcount"), "6");
  ASSERT_EQ(line->warnings.size(), 1U);
  EXPECT_EQ(line->warnings[0], "twice: line 3: recordcount=6 replaces the 5 of line 1");
}

TEST(CommandLine, Parse_MistakesAreNamedInOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run", "basic", "-thread", "4"}, "unknown option -thread; did you mean -threads?"},
      {{"run", "basic", "-x"}, "unknown option -x"},
      {{"run", "basic", "-threads"}, "-threads needs a value"},
      {{"run", "nothere"}, "there is no binding nothere; there are basic"},
      {{"run", "Basik"}, "there is no binding Basik; did you mean basic? There are basic"},
      {{"run", "redis"}, "the binding redis was left out of this build: install hiredis"},
      {{"run"}, "which binding?"},
      {{"walk", "basic"}, "the first word must be load or run, not walk"},
      {{"run", "basic", "more"}, "one word too many: more; a property file goes after -P"},
      {{"shell", "basic"}, "there is no shell here"},
      {{"run", "basic", "-p", "recordcount"}, "must be name=value"},
      {{"run", "basic", "-P", "missing"}, "cannot read the property file: missing: No such file"},
      {{"run", "basic", "-P", "workloads/workloada"}, "those of this project are in ycsb/workloads"},
      {{"run", "basic", "-P", "program"}, "program: line 1 is no text; is it a property file?"},
      {{"run", "basic", "--config"}, "--config needs a value"},
      {{"run", "basic", "--config="}, "--config needs a file"},
      {{"run", "basic", "-thread=4"}, "unknown option -thread; did you mean -threads?"},
      {{"run", "basic", "-P", "broken"}, "broken: line 1"},
  };
  for (const auto& [arguments, wanted] : cases) {
    const auto line = parse(arguments);
    ASSERT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument) << wanted;
    const std::string message(line.status().message());
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(CommandLine, Parse_UnknownPropertiesAreWarnedOf) {
  const auto line = parse({"run", "basic", "-p", "requestdistributon=zipfian", "-p", "a.b.c=1"});
  ASSERT_TRUE(line.ok());
  ASSERT_EQ(line->warnings.size(), 2U);
  EXPECT_EQ(line->warnings[0], "property a.b.c is not known and has no effect");
  EXPECT_NE(line->warnings[1].find("did you mean requestdistribution?"), std::string::npos);
}

TEST(CommandLine, TranslateDialects_OneWarningEach) {
  Properties p;
  ASSERT_TRUE(p.parse("dbname=basic\nlimit.ops=50\nfield_len_dist=uniform\nmeasurement.interval=5\n"
                      "outputstyle=json\nwarmuptime=3\ndoload=true\n")
                  .ok());
  std::vector<std::string> warnings;
  ASSERT_TRUE(translate_dialects(p, warnings).ok());
  EXPECT_EQ(warnings.size(), 7U);
  EXPECT_EQ(p.all(), (Properties::Map{{"db", "basic"},
                                      {"dotransactions", "false"},
                                      {"exporter", "json"},
                                      {"fieldlengthdistribution", "uniform"},
                                      {"status.interval", "5"},
                                      {"target", "50"}}));
}

TEST(CommandLine, TranslateDialects_JavasNamesWinAndJavasIntervalStays) {
  Properties p;
  ASSERT_TRUE(p.parse("limit.ops=50\ntarget=70\nmeasurement.interval=both\n").ok());
  std::vector<std::string> warnings;
  ASSERT_TRUE(translate_dialects(p, warnings).ok());
  EXPECT_EQ(p.find("target"), "70");
  EXPECT_EQ(p.find("measurement.interval"), "both");
  EXPECT_EQ(warnings.size(), 1U);
}

TEST(CommandLine, TranslateDialects_ChangingRateIsRefused) {
  Properties p;
  p.set("limit.file", "rates.txt");
  std::vector<std::string> warnings;
  EXPECT_FALSE(translate_dialects(p, warnings).ok());
}

TEST(CommandLine, HelpText_NamesEveryOptionAndBinding) {
  const std::string text = help_text(bindings());
  for (const char* wanted :
       {"-threads", "-inflight", "-target", "basicdb.verbose", "recordcount", "requestdistribution", "Examples"}) {
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted;
  }
}

}  // namespace
}  // namespace skua::ycsb
