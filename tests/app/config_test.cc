#include "app/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/log.h"
#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A program without commands that has one option of each type.
struct Server {
  Server() : program({.name = "skuad", .summary = "Storage node"}) {
    program.add_string("data-dir", &data_dir, "Where data lives.").value_name("DIR").required();
    program.add_bool("sync", &sync, "Sync each write.");
    program.add_int("workers", &workers, "Polling threads.").range(1, 64).unit("threads");
    program.add_double("load-factor", &load_factor, "How full.").range_double(0.1, 1);
    program.add_duration("timeout", &timeout_ns, "How long to wait.").range(kMillisecond, kSecond);
    program.add_size("cache", &cache_bytes, "Cache size.").at_least(4096);
    program.add_list("peers", &peers, "Peers.");
    program.add_string("address", &address, "Where to listen.")
        .check([](const std::string& text) -> std::optional<std::string> {
          if (text.find(':') == std::string::npos) return "must be HOST:PORT";
          return std::nullopt;
        });
    add_log_options(program, &log);
    Command& drain = program.add_command("drain", "Drain the node");
    drain.add_int("rate", &rate, "Shards at a time.");
    drain.action([] { return 5; });
    program.action([] { return 3; });
  }

  ParseOutcome parse(const std::vector<std::string>& arguments, const Environment& environment = {}) {
    return program.parse(arguments, environment);
  }

  std::string data_dir;
  bool sync = true;
  int workers = 2;
  double load_factor = 0.75;
  DurationNs timeout_ns = 500 * kMillisecond;
  uint64_t cache_bytes = 64 << 20;
  std::vector<std::string> peers;
  std::string address = "127.0.0.1:7400";
  LogOptions log;
  int64_t rate = 1;
  Program program;
};

std::string error_of(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  Server server;
  const ParseOutcome outcome = server.parse(arguments, environment);
  EXPECT_FALSE(outcome.go_on);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  return outcome.err;
}

TEST(Config, Parse_DefaultsStay) {
  Server server;
  ASSERT_TRUE(server.parse({"--data-dir", "/d"}).go_on);
  EXPECT_EQ(server.data_dir, "/d");
  EXPECT_EQ(server.workers, 2);
  EXPECT_TRUE(server.sync);
  EXPECT_EQ(server.program.run(), 3);
}

TEST(Config, Parse_EveryTypeFromFlags) {
  Server server;
  ASSERT_TRUE(server
                  .parse({"--data-dir=/d", "--sync=false", "--workers", "8", "--load-factor", "0.5", "--timeout", "2ms",
                          "--cache", "1GiB", "--peers", "a,b", "--log-level", "debug", "--log-format", "json"})
                  .go_on);
  EXPECT_FALSE(server.sync);
  EXPECT_EQ(server.workers, 8);
  EXPECT_EQ(server.load_factor, 0.5);
  EXPECT_EQ(server.timeout_ns, 2 * kMillisecond);
  EXPECT_EQ(server.cache_bytes, uint64_t{1} << 30);
  EXPECT_THAT(server.peers, ElementsAre("a", "b"));
  EXPECT_EQ(server.log.level, LogLevel::kDebug);
  EXPECT_EQ(server.log.format, LogFormat::kJson);
}

TEST(Config, Parse_EveryTypeFromTheFile) {
  const TempDir dir;
  const std::string file = dir.write("c.toml",
                                     "data_dir = '/d'\nsync = false\nworkers = 8\n"
                                     "load_factor = 1\ntimeout = \"2ms\"\ncache = \"1GiB\"\n"
                                     "peers = [\"a\", \"b\"]\nlog_level = \"error\"\n"
                                     "[drain]\nrate = 7\n");
  Server server;
  ASSERT_TRUE(server.parse({"--config", file}).go_on);
  EXPECT_EQ(server.data_dir, "/d");
  EXPECT_FALSE(server.sync);
  EXPECT_EQ(server.workers, 8);
  EXPECT_EQ(server.load_factor, 1);
  EXPECT_EQ(server.timeout_ns, 2 * kMillisecond);
  EXPECT_EQ(server.cache_bytes, uint64_t{1} << 30);
  EXPECT_THAT(server.peers, ElementsAre("a", "b"));
  EXPECT_EQ(server.log.level, LogLevel::kError);
  EXPECT_EQ(server.rate, 7);
}

TEST(Config, Parse_EveryTypeFromTheEnvironment) {
  Server server;
  ASSERT_TRUE(server
                  .parse({"drain"}, {{"SKUA_DATA_DIR", "/d"},
                                     {"SKUA_SYNC", "off"},
                                     {"SKUA_WORKERS", "8"},
                                     {"SKUA_LOAD_FACTOR", "0.5"},
                                     {"SKUA_TIMEOUT", "2ms"},
                                     {"SKUA_CACHE", "8192"},
                                     {"SKUA_PEERS", "a,b"},
                                     {"SKUA_DRAIN_RATE", "9"},
                                     {"HOME", "/root"}})
                  .go_on);
  EXPECT_EQ(server.data_dir, "/d");
  EXPECT_FALSE(server.sync);
  EXPECT_EQ(server.workers, 8);
  EXPECT_EQ(server.cache_bytes, 8192u);
  EXPECT_THAT(server.peers, ElementsAre("a", "b"));
  EXPECT_EQ(server.rate, 9);
  EXPECT_EQ(server.program.run(), 5);
}

TEST(Config, Parse_FlagOverEnvironmentOverFileOverDefault) {
  const TempDir dir;
  const std::string file = dir.write("c.toml", "data_dir = '/file'\nworkers = 3\ntimeout = \"3ms\"\ncache = 30000\n");
  Server server;
  ASSERT_TRUE(server
                  .parse({"--data-dir", "/flag"},
                         {{"SKUA_CONFIG", file}, {"SKUA_DATA_DIR", "/environment"}, {"SKUA_WORKERS", "4"}})
                  .go_on);
  EXPECT_EQ(server.data_dir, "/flag");
  EXPECT_EQ(server.workers, 4);
  EXPECT_EQ(server.timeout_ns, 3 * kMillisecond);
  EXPECT_EQ(server.cache_bytes, 30000u);
  EXPECT_EQ(server.load_factor, 0.75);
}

TEST(Config, Parse_BadValues) {
  EXPECT_EQ(error_of({"--data-dri", "/d"}),
            "skuad: unknown option --data-dri; did you mean --data-dir? (see skuad --help)\n");
  EXPECT_EQ(error_of({"--workers", "65"}), "skuad: --workers must be 1 to 64 threads, not 65 (see skuad --help)\n");
  EXPECT_EQ(error_of({"--workers", "two"}), "skuad: --workers must be a whole number, not two (see skuad --help)\n");
  EXPECT_EQ(error_of({"--load-factor", "2"}), "skuad: --load-factor must be 0.1 to 1, not 2 (see skuad --help)\n");
  EXPECT_EQ(error_of({"--timeout", "2s"}), "skuad: --timeout must be 1ms to 1s, not 2s (see skuad --help)\n");
  EXPECT_EQ(error_of({"--cache", "1"}), "skuad: --cache must be at least 4KiB, not 1 (see skuad --help)\n");
  EXPECT_EQ(error_of({"--address", "here"}), "skuad: --address must be HOST:PORT, not here (see skuad --help)\n");
  EXPECT_EQ(error_of({"--log-level", "warn"}),
            "skuad: --log-level must be debug or info or warning or error, not warn; did you mean warning? "
            "(see skuad --help)\n");
  EXPECT_EQ(error_of({"--log-level", "warnin"}),
            "skuad: --log-level must be debug or info or warning or error, not warnin; "
            "did you mean warning? (see skuad --help)\n");
  EXPECT_EQ(error_of({"--data-dir", "a\nb", "--workers", "x\ny"}),
            "skuad: --workers must be a whole number, not x y (see skuad --help)\n");
  EXPECT_EQ(error_of({"--workers", "1\x1b[31m"}),
            "skuad: --workers must be a whole number, not 1\\x1b[31m (see skuad --help)\n");
  EXPECT_EQ(error_of({"--cache", "9000000TiB"}),
            "skuad: --cache must be a size of 1048576TiB at most, not 9000000TiB (see skuad --help)\n");
}

TEST(Config, Parse_StandardFlagsAreJudged) {
  EXPECT_EQ(error_of({"--data-dir", "/d", "--help=perhaps"}),
            "skuad: --help must be true or false, not perhaps (see skuad --help)\n");
  Server server;
  EXPECT_TRUE(server.parse({"--data-dir", "/d", "--version=false"}).go_on);
}

TEST(Config, Parse_EmptyIsNotGiven) {
  EXPECT_EQ(error_of({"--data-dir", ""}), "skuad: --data-dir DIR is empty (flag --data-dir) (see skuad --help)\n");
  EXPECT_EQ(error_of({}, {{"SKUA_DATA_DIR", ""}}),
            "skuad: --data-dir DIR is empty (environment SKUA_DATA_DIR) (see skuad --help)\n");
  EXPECT_EQ(error_of({"--data-dir", "/d", "--config="}), "skuad: --config is empty: name a file (see skuad --help)\n");
}

TEST(Config, Parse_OneOfAUnit) {
  Program program({.name = "p", .summary = "s"});
  int workers = 1;
  program.add_int("workers", &workers, "Threads.").range(0, 1).unit("threads");
  EXPECT_EQ(program.parse({"--workers", "2"}, {}).err, "p: --workers must be 0 to 1 thread, not 2 (see p --help)\n");
}

TEST(Config, Parse_RequiredSaysEveryForm) {
  EXPECT_EQ(error_of({}),
            "skuad: --data-dir DIR is required: as a flag, as SKUA_DATA_DIR, or as data_dir in the "
            "--config file (see skuad --help)\n");
}

TEST(Config, Parse_RangeOfTheVariablesType) {
  Program program({.name = "p", .summary = "s"});
  uint16_t port = 1;
  program.add_int("port", &port, "Port.");
  EXPECT_EQ(program.parse({"--port", "65536"}, {}).err, "p: --port must be 0 to 65535, not 65536 (see p --help)\n");
}

TEST(Config, Environment_MisspelledIsAnErrorForeignIsNot) {
  EXPECT_EQ(error_of({"--data-dir", "/d"}, {{"SKUA_WORKRES", "4"}}),
            "skuad: unknown environment variable SKUA_WORKRES; did you mean SKUA_WORKERS? "
            "(see skuad --help)\n");
  Server server;
  EXPECT_TRUE(server.parse({"--data-dir", "/d"}, {{"SKUA_TABLE", "t"}, {"SKUA_", ""}}).go_on);
}

TEST(Config, Environment_BadValueNamesTheVariable) {
  EXPECT_EQ(error_of({"--data-dir", "/d"}, {{"SKUA_WORKERS", "0"}}),
            "skuad: environment variable SKUA_WORKERS must be 1 to 64 threads, not 0 "
            "(see skuad --help)\n");
}

class ConfigFileTest : public testing::Test {
 protected:
  std::string error(const std::string& text) {
    const std::string path = dir_.write("c.toml", text);
    const std::string line = error_of({"--config", path});
    EXPECT_THAT(line, StartsWith("skuad: " + path + ":"));
    return line.substr(line.find(".toml:") + 6);
  }

  const TempDir dir_;
};

TEST_F(ConfigFileTest, Apply_UnknownKeysNameTheNearest) {
  EXPECT_EQ(error("sync = true\ndata_dri = 1\n"),
            "2: unknown key data_dri; did you mean data_dir? (see skuad --help)\n");
  EXPECT_EQ(error("data-dir = '/d'\n"), "1: unknown key data-dir; did you mean data_dir? (see skuad --help)\n");
  EXPECT_EQ(error("[drian]\nrate = 1\n"), "1: unknown table [drian]; did you mean drain? (see skuad --help)\n");
  EXPECT_EQ(error("DATA_DIR = '/d'\n"), "1: unknown key DATA_DIR; did you mean data_dir? (see skuad --help)\n");
  EXPECT_EQ(error("\n[drain]\nrat = 1\n"), "3: unknown key rat; did you mean rate? (see skuad --help)\n");
  EXPECT_EQ(error("config = 'x'\n"), "1: unknown key config (see skuad --help)\n");
}

TEST_F(ConfigFileTest, Apply_TypesMustFit) {
  EXPECT_EQ(error("workers = '4'\n"), "1: workers must be a whole number, without quotes (see skuad --help)\n");
  EXPECT_EQ(error("workers = 1.5\n"), "1: workers must be a whole number, without quotes (see skuad --help)\n");
  EXPECT_EQ(error("timeout = 5\n"),
            "1: timeout must be a duration such as 250us, 500ms, 2s or 10m, not 5 "
            "(see skuad --help)\n");
  EXPECT_EQ(error("peers = 'a'\n"), "1: peers must be an array of strings (see skuad --help)\n");
  EXPECT_EQ(error("workers = 99\n"), "1: workers must be 1 to 64 threads, not 99 (see skuad --help)\n");
  EXPECT_EQ(error("data_dir = 2024-01-01\n"), "1: data_dir must be a string, in quotes (see skuad --help)\n");
}

TEST_F(ConfigFileTest, Apply_BrokenTomlIsOneLine) {
  EXPECT_THAT(error("a = 1\nworkers = = 4\n"), StartsWith("2: "));
  EXPECT_EQ(error("workers: 4\n"),
            "1: expected '=', saw ':'; lines of this file look like some_name = \"text\" or some_name = 7 "
            "(see skuad --help)\n");
  EXPECT_EQ(error("workers = 4\nworkers = 5\n"), "2: there is a second 'workers': leave one out (see skuad --help)\n");
  EXPECT_EQ(error("cache = \"\"\n"),
            "1: cache must be a size in bytes such as 4096, 64KiB, 16MiB or 2GiB, not empty (see skuad --help)\n");
}

TEST_F(ConfigFileTest, Apply_MissingFileAndDirectory) {
  EXPECT_THAT(
      error_of({"--config", dir_.path() + "/none.toml"}),
      HasSubstr("--config names no configuration file: " + dir_.path() + "/none.toml: No such file or directory"));
  EXPECT_THAT(error_of({"--config", dir_.path()}), HasSubstr(dir_.path() + " is a directory"));
  EXPECT_THAT(error_of({"--config", dir_.write("b", std::string("a = 1\0", 6))}), HasSubstr("is not text in UTF-8"));
  EXPECT_THAT(error_of({"--config", dir_.write("b", "\xff\xfe")}), HasSubstr("is not text in UTF-8"));
  EXPECT_THAT(error_of({}, {{"SKUA_CONFIG", dir_.path()}}), HasSubstr("SKUA_CONFIG names no configuration file"));
}

TEST_F(ConfigFileTest, Apply_EmptyFileIsFine) {
  Server server;
  EXPECT_TRUE(server.parse({"--data-dir", "/d", "--config", dir_.write("e.toml", "")}).go_on);
}

TEST(Config, PrintConfig_EachValueAndItsOrigin) {
  const TempDir dir;
  const std::string file = dir.write("c.toml", "timeout = \"3ms\"\npeers = [\"a\", \"b\"]\n");
  Server server;
  const ParseOutcome outcome =
      server.parse({"--config", file, "--workers=4", "--print-config"}, {{"SKUA_CACHE", "8192"}});
  EXPECT_FALSE(outcome.go_on);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "# data_dir = \"\"  # not set, but required\n"
            "sync = true  # default\n"
            "workers = 4  # flag --workers\n"
            "load_factor = 0.75  # default\n"
            "timeout = \"3ms\"  # file " +
                file +
                "\n"
                "cache = \"8KiB\"  # environment SKUA_CACHE\n"
                "peers = [\"a\", \"b\"]  # file " +
                file +
                "\n"
                "address = \"127.0.0.1:7400\"  # default\n"
                "log_level = \"info\"  # default\n"
                "log_format = \"text\"  # default\n"
                "\n[drain]\n"
                "rate = 1  # default\n");
}

TEST(Config, PrintConfig_IsAValidConfigFile) {
  const TempDir dir;
  Server first;
  const ParseOutcome printed = first.parse(
      {"--data-dir", "a\"b\\c\td", "--workers", "4", "--peers", "x,y", "--load-factor", "1", "--print-config"});
  Server second;
  ASSERT_TRUE(second.parse({"--config", dir.write("c.toml", printed.out)}).go_on);
  EXPECT_EQ(second.data_dir, "a\"b\\c\td");
  EXPECT_EQ(second.workers, 4);
  EXPECT_EQ(second.load_factor, 1);
  EXPECT_THAT(second.peers, ElementsAre("x", "y"));
}

TEST(Config, PrintConfig_OfOneCommand) {
  Server server;
  const std::string out = server.parse({"drain", "--rate", "3", "--print-config"}).out;
  EXPECT_THAT(out, HasSubstr("\n[drain]\nrate = 3  # flag --rate\n"));
}

TEST(Config, Version_AndHelpNeedNothingElse) {
  Server server;
  const ParseOutcome version = server.parse({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, testing::MatchesRegex("skuad [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  Server other;
  EXPECT_THAT(other.parse({"-h"}, {{"SKUA_WORKERS", "0"}}).out, StartsWith("skuad: Storage node"));
}

}  // namespace
}  // namespace skua::app
