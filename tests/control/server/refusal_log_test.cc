#include "control/server/refusal_log.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "control/server/controller_limits.h"

namespace skua::control {
namespace {

TEST(RefusalLog, TheSameWordsOnceAMinute) {
  RefusalLog log;
  EXPECT_EQ(log.note("10.0.0.1", "no such table", 1), "refused: 10.0.0.1: no such table");
  EXPECT_EQ(log.note("10.0.0.1", "no such table", 2), std::nullopt);
  EXPECT_EQ(log.note("10.0.0.2", "no such table", 2), "refused: 10.0.0.2: no such table");
  EXPECT_EQ(log.note("", "no such table", 2), "refused: no such table");
  EXPECT_NE(log.note("10.0.0.1", "no such table", 2 + kRefusalRepeatNs), std::nullopt);
}

TEST(RefusalLog, OtherWordsEachTimeDoNotHelp) {
  RefusalLog log;
  size_t lines = 0;
  for (int i = 0; i < 1000; ++i) lines += log.note("10.0.0.1", absl::StrCat("no node ", i), i) ? 1 : 0;
  EXPECT_EQ(lines, kRefusalsPerSource);
  EXPECT_NE(log.note("10.0.0.2", "no node 1", 1000), std::nullopt) << "others are heard";
}

TEST(RefusalLog, TheLastLineSaysThatItIs) {
  RefusalLog log;
  std::string last;
  for (int i = 0; i < 100; ++i) last = log.note("10.0.0.1", absl::StrCat("no node ", i), i).value_or(last);
  EXPECT_NE(last.find("more refusals from there are not logged for a minute"), std::string::npos) << last;
}

TEST(RefusalLog, ManySourcesShareWhatIsLeft) {
  RefusalLog log;
  size_t lines = 0;
  for (int i = 0; i < 10'000; ++i) lines += log.note(absl::StrCat("host", i), absl::StrCat("no node ", i), 1) ? 1 : 0;
  EXPECT_EQ(lines, kRefusalSourcesMax + kRefusalsPerSource);
  EXPECT_NE(log.note("later", "no node", 2 + kRefusalRepeatNs), std::nullopt);
}

}  // namespace
}  // namespace skua::control
