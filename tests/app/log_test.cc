#include "app/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace skua::app {
namespace {

using testing::MatchesRegex;

constexpr char kTime[] = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z";

// Collects lines; the logger calls one at a time.
struct Lines {
  std::vector<std::string> lines;
  Logger logger(LogOptions options = {}) {
    return Logger(options, [this](std::string_view line) { lines.emplace_back(line); });
  }
  // Without the time.
  std::string rest(size_t i) const { return lines.at(i).substr(25); }
};

TEST(Log, Log_TextLine) {
  Lines lines;
  lines.logger().with_component("worker").info("shard opened", {{"shard", 3},
                                                                {"bytes", uint64_t{4096}},
                                                                {"took_ms", 12.5},
                                                                {"new", true},
                                                                {"path", std::string("/a")},
                                                                {"note", "two words"},
                                                                {"empty", ""}});
  ASSERT_EQ(lines.lines.size(), 1u);
  EXPECT_THAT(lines.lines[0].substr(0, 24), MatchesRegex(kTime));
  EXPECT_EQ(lines.rest(0),
            "info    worker: shard opened shard=3 bytes=4096 took_ms=12.5 new=true path=/a "
            "note=\"two words\" empty=\"\"\n");
}

TEST(Log, Log_JsonLine) {
  Lines lines;
  lines.logger({.format = LogFormat::kJson})
      .error("broken \"pipe\"",
             {{"peer", "a\tb\x01"}, {"count", -1}, {"ratio", std::numeric_limits<double>::infinity()}});
  ASSERT_EQ(lines.lines.size(), 1u);
  EXPECT_THAT(lines.lines[0].substr(0, 9 + 24), MatchesRegex(std::string("\\{\"time\":\"") + kTime));
  EXPECT_EQ(lines.lines[0].substr(9 + 24),
            "\",\"level\":\"error\",\"component\":\"main\",\"message\":\"broken \\\"pipe\\\"\","
            "\"peer\":\"a\\tb\\u0001\",\"count\":-1,\"ratio\":\"inf\"}\n");
}

TEST(Log, Log_BelowTheLevelIsDropped) {
  Lines lines;
  const Logger logger = lines.logger({.level = LogLevel::kWarning});
  logger.debug("no");
  logger.info("no");
  logger.warning("yes");
  logger.error("yes");
  EXPECT_FALSE(logger.enabled(LogLevel::kInfo));
  EXPECT_TRUE(logger.enabled(LogLevel::kError));
  ASSERT_EQ(lines.lines.size(), 2u);
  EXPECT_EQ(lines.rest(0), "warning main: yes\n");
}

TEST(Log, Log_AlwaysOneLine) {
  Lines lines;
  lines.logger().info("a\nb", {{"value", "c\nd"}, {"percent", "%v {}"}});
  EXPECT_EQ(lines.rest(0), "info    main: a b value=\"c\\nd\" percent=\"%v {}\"\n");
}

TEST(Log, Log_LongTextsAreCut) {
  Lines lines;
  lines.logger().info(std::string(1 << 20, 'm'), {{"value", std::string(1 << 20, 'v')}});
  ASSERT_EQ(lines.lines.size(), 1u);
  EXPECT_LT(lines.lines[0].size(), 10'000u);
  EXPECT_NE(lines.lines[0].find("mmm... (1048576 bytes) value=\"vvv"), std::string::npos);
}

TEST(Log, Log_BytesThatAreNoTextAreShown) {
  Lines text;
  text.logger().info("from \xff", {{"peer", "a\x80"}});
  EXPECT_EQ(text.rest(0), "info    main: from \\xff peer=\"a\\\\x80\"\n");
  Lines json;
  json.logger({.format = LogFormat::kJson}).info("from \xff");
  EXPECT_NE(json.lines.at(0).find("\"message\":\"from \\\\xff\""), std::string::npos) << json.lines.at(0);
}

TEST(Log, Log_AFloodIsCutAndCounted) {
  Lines lines;
  const Logger logger = lines.logger({.throttle = {.burst = 3, .per_second = 0}});
  for (int i = 0; i < 1000; ++i) logger.warning("refused", {{"peer", i}});
  logger.info("another kind");
  ASSERT_EQ(lines.lines.size(), 4u);
  EXPECT_EQ(lines.rest(3), "info    main: another kind\n");
}

TEST(Log, Log_ThreadsDoNotInterleave) {
  Lines lines;
  const Logger logger = lines.logger({.throttle = {.burst = 2000}});
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&logger, t] {
      const Logger own = logger.with_component("t" + std::to_string(t));
      for (int i = 0; i < 500; ++i) own.info("tick", {{"i", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(lines.lines.size(), 2000u);
  for (size_t i = 0; i < lines.lines.size(); ++i) {
    EXPECT_THAT(lines.rest(i), MatchesRegex("info    t[0-3]: tick i=[0-9]+\n"));
  }
}

TEST(Log, Logger_ToStderr) {
  testing::internal::CaptureStderr();
  Logger(LogOptions{}).info("hello");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), MatchesRegex(std::string(kTime) + " info    main: hello\n"));
}

}  // namespace
}  // namespace skua::app
